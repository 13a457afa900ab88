"""Filters by the command line: the example of docs/shaping.md, and the steps of its table."""

from __future__ import annotations

import hmac
import re
from pathlib import Path

import duckdb
import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.command_line import CommandLine
from tests.support.feed import Feed

DOCS = Path(__file__).parents[2] / "docs" / "shaping.md"
_STEP = re.compile(r"\| (INSERT|UPDATE|DELETE) ([^|]+) \|([^|]*)\|([^|]*)\|")
_PAIR = re.compile(r"\((\d), (\d)\)")
TABLES = ("shop.orders", "shop.logs")


def line(table: str, kind: str, pairs: list[tuple[str, str]], ts: int) -> bytes:
    old, new = ({"id": pair[0], "v": pair[1]} for pair in (pairs[0], pairs[-1]))
    database, _, name = table.partition(".")
    was = [old] if len(pairs) > 1 else None
    return typed_line((ID, VALUE), ts, new, kind, old=was, database=database, table=name)


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
    feed.file("shop.people", 2, typed_line(columns, 10, values, database="shop", table="people"))
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
