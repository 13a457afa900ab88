"""A small replica whose hints are followed: what they print is pasted as a shell takes it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.support.command_line import CommandLine, Left, command_line
from tests.support.feed import Feed

_COMMAND = re.compile(r"storage-consumer (?:resync|skip-ddl|forget|once --accept-gap-in) .*")


class Shop:
    """A replica in DuckDB of a storage with one table `my.shop`.`it's`, whose names a shell must be told with care."""

    def __init__(self, feed: Feed, cli: CommandLine) -> None:
        self.feed, self.cli = feed, cli

    def run(self, command: str, *more: str) -> Left:
        """On the feed, unless `more` names another upstream: two would be several."""
        own = [] if "--upstream-uri" in more else ["--upstream-uri", f"file://{self.feed.folder}?protocol=canal-json"]
        flags = [*own, "--tz", "UTC"]
        return self.cli.raw(command, *flags, "--downstream-uri", self.cli.target, "--log-level", "error", *more)

    def once(self, checkpoint: int, *more: str) -> Left:
        self.feed.checkpoint(checkpoint)
        return self.run("once", *more)

    def paste(self, printed: str) -> list[Left]:
        """Run the commands that `printed` names, each as a shell takes what stands there to the end of its line."""
        commands = [found[0] for line in printed.splitlines() if (found := _COMMAND.search(line))]
        assert commands, printed
        return [self.cli.raw(*as_a_shell_takes(command)) for command in dict.fromkeys(commands)]

    def by_hand(self, statement: str) -> None:
        with duckdb.connect(self.cli.target.removeprefix("duckdb:///")) as connection:
            connection.execute(statement)

    @property
    def rows(self) -> list[tuple[object, ...]]:
        with duckdb.connect(self.cli.target.removeprefix("duckdb:///")) as connection:
            return connection.execute("""SELECT id, v FROM d."it's" ORDER BY id""").fetchall()


def as_a_shell_takes(line: str) -> list[str]:
    script = f"storage-consumer() {{ printf '%s\\0' \"$@\"; }}; {line}"
    out = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    return [word.decode() for word in out.split(b"\0")[:-1]]


def open_shop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The replica, in order."""
    feed = Feed(tmp_path / "feed it's")
    feed.folder.mkdir()
    feed.database("d", 1)
    feed.create("d.it's", 2)
    feed.puts("d.it's", 2, {10: (1, "1"), 11: (2, "2")})
    shop = Shop(feed, command_line(tmp_path, capsys, monkeypatch))
    assert shop.once(15).code == 0
    return shop
