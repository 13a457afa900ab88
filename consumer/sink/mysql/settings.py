"""The target's address and options."""

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
"""The greatest write source that TiDB accepts."""
SslMode = Literal["", "DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"]
"""MySQL's own names. "" if the URI does not set one."""


@dataclass(frozen=True, slots=True, repr=False)
class MySqlSettings:
    """A MySQL-compatible target. `name` is the consumer name, under which the progress is kept.

    `time_zone` is the changefeed's time zone, an offset or a name. It applies to statements; rows are in UTC. `socket`
    replaces host and port. `connect_timeout` is in seconds. `worker_count` limits the connections of one step.
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
    """Prints the password. It runs again for each connection."""
    write_source: int = 0
    """Marks every change for a changefeed of the target itself (TiDB). 0 for no mark."""
    staged: bool = False
    """Rows wait in files. The transaction that records them writes them."""
    staging: str = ""
    """The folder for these files, which all workers can reach. "" for the folder of temporary files."""
    max_wait: float = 60.0
    """The number of seconds for which a step is retried."""

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
        """Returns the seconds for which one try may wait for locks of others: a part of `max_wait`."""
        return self.max_wait / 4

    @property
    def address(self) -> str:
        """Returns the target's address for messages, without the password."""
        return self.socket or f"{self.host}:{self.port}"

    @classmethod
    def from_uri(cls, uri: str, **defaults: Any) -> MySqlSettings:
        """Parses ``mysql://user:password@host:port/?option=value`` (also ``mariadb://``, ``tidb://``). The URI's
        options override `defaults`. Raises BadConfig."""
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
            **{**defaults, **options},
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
    option = name.replace("-", "_")
    if option in ("ssl_ca", "ssl_cert", "ssl_key", "socket", "password"):
        return option, value
    if option == "staging":
        return option, _folder(value)
    if option == "password_command":
        return option, _command(value)
    if option == "ssl_mode":
        return option, _ssl_mode(value)
    if option in ("worker_count", "connect_timeout"):
        if not value.isdecimal() or int(value) < 1:
            raise BadConfig(f"the downstream URI's {name} is {value!r}, it must be a whole number above 0")
        return option, int(value)
    if option == "write_source":
        if not value.isdecimal() or not 1 <= int(value) <= _WRITE_SOURCES:
            raise BadConfig(
                f"the downstream URI's {name} is {value!r}, it must be a whole number from 1 to {_WRITE_SOURCES}"
            )
        return option, int(value)
    if option == "allow_triggers":
        if value not in ("true", "false"):
            raise BadConfig(f"the downstream URI's {name} is {value!r}, it must be true or false")
        return option, value == "true"
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
