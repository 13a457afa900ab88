"""Filters by the command line: the example of docs/shaping.md, and the steps of its table."""

from __future__ import annotations

import hmac
import json
import re
from pathlib import Path

import duckdb
import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.command_line import CommandLine, command_line
from tests.support.feed import Feed

DOCS = Path(__file__).parents[2] / "docs" / "shaping.md"
_STEP = re.compile(r"\| (INSERT|UPDATE|DELETE) ([^|]+) \|([^|]*)\|([^|]*)\|")
_PAIR = re.compile(r"\((\d), (\d)\)")
TABLES = ("shop.orders", "shop.logs")


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


def line(table: str, kind: str, pairs: list[tuple[str, str]], ts: int) -> bytes:
    def row(pair: tuple[str, str]) -> str:
        return json.dumps({"id": pair[0], "v": pair[1]})

    old = f"[{row(pairs[0])}]" if len(pairs) > 1 else "null"
    database, _, name = table.partition(".")
    return (
        f'{{"database":"{database}","table":"{name}","isDdl":false,"type":"{kind}","es":0,'
        f'"mysqlType":{{"id":"int","v":"int"}},"old":{old},"data":[{row(pairs[-1])}],"_tidb":{{"commitTs":{ts}}}}}\r\n'
    ).encode()


def test_the_example_and_the_steps_of_the_docs(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = DOCS.read_text(encoding="utf-8")
    example = next(block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[consumer.rows]]" in block)
    (tmp_path / "c.toml").write_text(example, encoding="utf-8")
    feed = Feed(tmp_path / "cdc")
    feed.database("shop", 1)
    for version, table in enumerate(TABLES, 2):
        feed.create(table, version)
    monkeypatch.chdir(tmp_path)
    run = ("--config", "c.toml", "--tz", "UTC", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json")
    steps = _STEP.findall(text)
    assert len(steps) == 5
    for ts, (kind, rows, *expected) in enumerate(steps, 10):
        for version, table in enumerate(TABLES, 2):
            feed.file(table, version, line(table, kind, _PAIR.findall(rows), ts))
        feed.checkpoint(ts)
        planned = cli.raw("plan", *run)
        assert "shop.orders: only rows with v > 5" in planned.out + planned.err
        assert "shop.logs: drops INSERT with v <= 5; drops UPDATE to a row with v <= 5" in planned.out + planned.err
        done = cli.raw("once", *run)
        assert done.code == 0, done.err
        with duckdb.connect("replica.duckdb") as connection:
            for table, cell in zip(TABLES, expected, strict=True):
                there = connection.execute(f"SELECT id, v FROM {table} ORDER BY id").fetchall()
                assert there == [(int(key), int(v)) for key, v in _PAIR.findall(cell)], (kind, rows, table)
    assert cli.raw("verify", *run).code == 0
    feed.truncate("shop.logs", 20)
    feed.checkpoint(30)
    assert cli.raw("once", *run).code == 0
    with duckdb.connect("replica.duckdb") as connection:
        assert connection.execute("SELECT id, v FROM shop.logs").fetchall() == [(2, 7)]


def test_the_masks_of_the_docs(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = DOCS.read_text(encoding="utf-8")
    examples = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    example = next(block for block in examples if "[[consumer.masks]]" in block)
    (tmp_path / "c.toml").write_text(example, encoding="utf-8")
    rows = re.findall(r"\| `(\w+)` \| `([^`]+)` \| (?:`([^`]+)`|NULL) \| `\w+`", text)
    assert len(rows) == 4
    columns = (
        Column("mail", "VARCHAR", length=99, nullable=False, is_pk=True),
        *(Column(name, "VARCHAR", length=20) for name, *_ in rows),
    )
    feed = Feed(tmp_path / "cdc")
    feed.database("shop", 1)
    own = ", ".join(f"`{name}` VARCHAR(20)" for name, *_ in rows)
    create = f"CREATE TABLE `people` (`mail` VARCHAR(99) PRIMARY KEY, {own})"
    feed.statement("shop.people", 2, Action.CREATE_TABLE, create, columns)
    values = {"mail": "ana@x.org", **{name: value for name, value, _ in rows}}
    types = {column.name: "varchar" for column in columns}
    row = {"database": "shop", "table": "people", "isDdl": False, "type": "INSERT", "es": 0, "mysqlType": types}
    message = {**row, "old": None, "data": [values], "_tidb": {"commitTs": 10}}
    feed.file("shop.people", 2, json.dumps(message).encode() + b"\r\n")
    feed.checkpoint(20)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MASK_KEY", "a key of the operator")
    run = ("--config", "c.toml", "--tz", "UTC", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json")
    assert cli.raw("once", *run).code == 0
    assert cli.raw("verify", *run).code == 0
    names = ", ".join(name for name, *_ in rows)
    with duckdb.connect("replica.duckdb") as connection:
        [(mail, *there)] = connection.execute(f"SELECT mail, {names} FROM shop.people").fetchall()
    assert mail == hmac.new(b"a key of the operator", b"ana@x.org", "sha256").hexdigest()
    assert there == [expected or None for *_, expected in rows]
