"""The target's location and options."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from consumer.errors import BadConfig
from consumer.sink.common import check_consumer_name

_DEFAULT_PORTS = {"mysql": 3306, "mariadb": 3306, "tidb": 4000}
_WRITE_SOURCES = 15
"""TiDB has so many."""
SslMode = Literal["", "DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"]
"""MySQL's own names; "" where the URI says nothing."""


@dataclass(frozen=True, slots=True, repr=False)
class MySqlSettings:
    """A MySQL-compatible target. `name` is the consumer name, under which the progress is kept.

    `time_zone` is the changefeed's, an offset or a name: that of statements; rows come in UTC. `socket` replaces host
    and port. `connect_timeout` is in seconds. `worker_count` bounds the connections of one step.
    """

    host: str
    port: int
    user: str
    password: str
    name: str
    time_zone: str = "UTC"
    worker_count: int = 16
    ssl_ca: str = ""
    ssl_cert: str = ""
    ssl_key: str = ""
    connect_timeout: int = 10
    socket: str = ""
    allow_triggers: bool = False
    ssl_mode: SslMode = ""
    password_command: tuple[str, ...] = ()
    """Prints the password, again for each connection."""
    write_source: int = 0
    """Marks every change for a changefeed of the target itself (TiDB), 0 for no mark."""
    staged: bool = False
    """Rows wait in files, and are written by the transaction that records them."""
    staging: str = ""
    """The folder for these files, where all workers see it; "": where temporary files go."""
    max_wait: float = 60.0
    """For how many seconds a step is tried again."""

    def __post_init__(self) -> None:
        check_consumer_name(self.name)
        if self.worker_count < 1:
            raise BadConfig(f"worker-count is {self.worker_count}, it must be at least 1")

    def __repr__(self) -> str:
        hidden = ("password", "password_command")
        shown = (f"{f.name}={('***' if f.name in hidden else getattr(self, f.name))!r}" for f in fields(self))
        return f"MySqlSettings({', '.join(shown)})"

    @property
    def longest_lock_wait(self) -> float:
        """For how long one try may wait for what others hold: a part of all that it may take."""
        return self.max_wait / 4

    @property
    def address(self) -> str:
        """For messages: where the target is, without the password."""
        return self.socket or f"{self.host}:{self.port}"

    @classmethod
    def from_uri(cls, uri: str, **given: Any) -> MySqlSettings:
        """Read ``mysql://user:password@host:port/?option=value`` (``mariadb://``, ``tidb://`` too). Its options count
        before those that are `given` besides. BadConfig."""
        parts = urlsplit(uri)
        if parts.scheme not in _DEFAULT_PORTS:
            raise BadConfig(f"the downstream scheme {parts.scheme!r} is none of {', '.join(_DEFAULT_PORTS)}")
        if parts.path not in ("", "/") or parts.fragment:
            raise BadConfig(
                "the downstream URI must end after host and port: databases are named as upstream names them",
                hint="leave out the database that it names; percent-encode '/', '#', '?' and '@' in user and password",
            )
        options = {**_options(parts.query)}
        passwords = [*filter(None, (unquote(parts.password or ""), options.pop("password", "")))]
        if len(passwords) + ("password_command" in options) > 1:
            raise BadConfig("the downstream URI gives more than one password: before '@', password or password-command")
        return cls(
            host=unquote(parts.hostname or "127.0.0.1"),
            port=_port(parts, _DEFAULT_PORTS[parts.scheme]),
            user=unquote(parts.username or "root"),
            password="".join(passwords),
            **{**given, **options},
        )


def _port(parts: Any, default: int) -> int:
    try:
        return parts.port or default
    except ValueError as error:
        raise BadConfig("the downstream URI's port is not a number from 1 to 65535") from error


def _options(query: str) -> Mapping[str, Any]:
    try:
        pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise BadConfig("the downstream URI's options are not name=value pairs joined by '&'") from error
    return dict(_option(name, value) for name, value in pairs)


def _option(name: str, value: str) -> tuple[str, Any]:
    known = name.replace("-", "_")
    if known in ("ssl_ca", "ssl_cert", "ssl_key", "socket", "password"):
        return known, value
    if known == "staging":
        return known, _folder(value)
    if known == "password_command":
        return known, _command(value)
    if known == "ssl_mode":
        return known, _ssl_mode(value)
    if known in ("worker_count", "connect_timeout"):
        if not value.isdecimal() or int(value) < 1:
            raise BadConfig(f"the downstream URI's {name} is {value!r}, it must be a whole number above 0")
        return known, int(value)
    if known == "write_source":
        if not value.isdecimal() or not 1 <= int(value) <= _WRITE_SOURCES:
            raise BadConfig(
                f"the downstream URI's {name} is {value!r}, it must be a whole number from 1 to {_WRITE_SOURCES}"
            )
        return known, int(value)
    if known == "allow_triggers":
        if value not in ("true", "false"):
            raise BadConfig(f"the downstream URI's {name} is {value!r}, it must be true or false")
        return known, value == "true"
    raise BadConfig(f"the downstream URI has an unknown option {name!r}")


def _folder(value: str) -> str:
    if "://" in value:
        raise BadConfig(
            f"the downstream URI's staging is {value!r}, and rows are staged in a folder",
            hint="name one that this machine and all Spark workers see, such as a mounted share",
        )
    return os.path.abspath(value) if value else ""


def _command(value: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(value))
    except ValueError:
        words = ()
    if not words:
        raise BadConfig("the downstream URI's password-command is no command, or has a quote that is not closed")
    return words


def _ssl_mode(value: str) -> str:
    mode = value.upper().replace("-", "_")
    modes = [name for name in get_args(SslMode) if name]
    if mode not in modes:
        raise BadConfig(f"the downstream URI's ssl-mode is {value!r}, it must be one of {', '.join(modes)}")
    return mode
