"""compose.yaml without containers: its configurations, environments and commands, with ports and folders of a test."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from tests.s3_server import S3Server
from tests.servers import MariaDb, mariadb_template
from tests.support.command_line import DEMO, DEMO_TABLES

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
BUCKET = "cdc"
_OURS = {"-dir", "-ip.bind", "-s3.port", "-s3.config"}
"""What compose.yaml says for a container, and a test for itself."""
_SECONDS = 240


class ComposeS3(S3Server):
    """The server with compose.yaml's own arguments and identities."""

    def __init__(self) -> None:
        super().__init__(json.loads(COMPOSE["configs"]["s3"]["content"])["identities"])

    @property
    def master(self) -> str:
        assert self._process is not None
        options = dict(str(option).partition("=")[::2] for option in self._process.args[1:])
        return f"127.0.0.1:{options['-master.port']}.{options['-master.port.grpc']}"

    @property
    def filer(self) -> str:
        return f"127.0.0.1:{self._filer_port}"

    def keys(self, name: str) -> dict[str, str]:
        (found,) = (one for one in json.loads(COMPOSE["configs"]["s3"]["content"])["identities"] if one["name"] == name)
        (login,) = found["credentials"]
        return {"aws_access_key_id": login["accessKey"], "aws_secret_access_key": login["secretKey"]}

    def client_of(self, name: str) -> Any:
        from botocore.session import Session

        return Session().create_client("s3", region_name="us-east-1", endpoint_url=self.endpoint, **self.keys(name))

    def _command(self) -> list[str]:
        verb, *given = shlex.split(SERVICES["s3"]["command"])
        weed, log, _, *own = super()._command()
        kept = [option for option in given if _name(option) not in _OURS]
        return [weed, log, verb, *kept, *(option for option in own if _name(option) not in map(_name, kept))]


def _name(option: str) -> str:
    return option.partition("=")[0]


@pytest.fixture
def s3() -> Iterator[ComposeS3]:
    server = ComposeS3()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[MariaDb]:
    """With the password of root that the image is given."""
    server = MariaDb(mariadb_template(tmp_path))
    try:
        password = SERVICES["mariadb"]["environment"]["MARIADB_ROOT_PASSWORD"]
        server.start().execute(f"ALTER USER 'root'@'127.0.0.1' IDENTIFIED BY '{password}'")
        yield server
    finally:
        server.stop()


def _script(service: str, changes: dict[str, str]) -> list[str]:
    """A service's entrypoint and command as the container would get them, with `changes`, each of which is needed."""
    (command,) = SERVICES[service]["command"]
    command = command.replace("$$", "$")
    for old, new in changes.items():
        assert old in command
        command = command.replace(old, new)
    return [*SERVICES[service]["entrypoint"], command]


def _health() -> list[str]:
    """The consumer's health check."""
    verb, *words = SERVICES["consumer"]["healthcheck"]["test"]
    assert verb == "CMD"
    return list(words)


def _environment(**hosts: str) -> dict[str, str]:
    """The consumer's environment; `hosts` stand for the services' names and ports."""
    given = {name: str(value) for name, value in SERVICES["consumer"]["environment"].items()}
    for name, address in hosts.items():
        changed = {key: re.sub(rf"(//|@){name}:\d+", rf"\g<1>{address}", value) for key, value in given.items()}
        assert changed != given
        given = changed
    return _path() | given


def _path() -> dict[str, str]:
    return os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def test_from_the_servers_to_the_replica(s3: ComposeS3, target: MariaDb, tmp_path: Path) -> None:
    make = _script("bucket", {"s3:9333": s3.master})
    for _ in range(2):
        subprocess.run(make, env=_path(), check=True, timeout=_SECONDS, capture_output=True)
    environment = _environment(s3=f"127.0.0.1:{s3.port}", mariadb=f"127.0.0.1:{target.port}")
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.client_of("consumer").put_object(Bucket=BUCKET, Key="x", Body=b"x")
    loop = _script("consumer", {"sleep 60": "sleep 1"})
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(loop, env=environment, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True)
    try:
        told = (tmp_path / "log").read_text
        _wait(lambda: "exit code 4" in told(), told)
        s3.client_of("ticdc").put_object(Bucket=BUCKET, Key="elsewhere/metadata", Body=b"{}")
        sample = _script(
            "sample", {"/demo/du": f"{DEMO}/du", "/demo/metadata": f"{DEMO}/metadata", "s3:8888": s3.filer}
        )
        subprocess.run(sample, env=_path(), check=True, timeout=_SECONDS, capture_output=True)
        _wait(lambda: _tables(target) == DEMO_TABLES, told)
        _wait(
            lambda: subprocess.run(_health(), env=environment, check=False, capture_output=True).returncode == 0, told
        )
        process.terminate()
        assert process.wait(timeout=float(SERVICES["consumer"]["stop_grace_period"].rstrip("s"))) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)
    assert not any(secret in told() for secret in ("consumer-secret", "replica-secret"))


def _tables(target: MariaDb) -> dict[str, list[tuple[Any, ...]]]:
    password = SERVICES["mariadb"]["environment"]["MARIADB_ROOT_PASSWORD"]
    with target.connect(password=password) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'du'")
        found = {}
        for (table,) in cursor.fetchall():
            cursor.execute(f"SELECT * FROM du.`{table}` ORDER BY 1")
            found[table] = list(cursor.fetchall())
        return found


def _wait(done: Callable[[], bool], log: Callable[[], str]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not done():
        assert time.monotonic() < deadline, log()[-3000:]
        time.sleep(0.5)
