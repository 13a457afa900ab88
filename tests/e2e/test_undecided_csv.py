"""Options of CSV that nobody gave: `inspect` does not print them as facts, and no run guesses them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from consumer import app
from consumer.app.inspect import inspect
from consumer.config.load import load
from consumer.config.settings import InspectSettings, Settings
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.memory.sink import MemorySink
from tests.support.observers import Recorder

V = 400000000000000000
UUIDS = ("00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100")
ID = Column(name="id", type="INT", length=11, nullable=False, is_pk=True)
ENCODING = "STORAGE_CONSUMER_CSV_BINARY_ENCODING_METHOD"


def storage(folder: Path, column: Column, lines: bytes) -> dict[str, str]:
    kind = f"{column.type}({column.length})"
    feed = Feed(folder)
    feed.database("d", V - 5)
    create = f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`{column.name}` {kind})"
    feed.statement("d.t", V, Action.CREATE_TABLE, create, (ID, column))
    feed.file("d.t", V, lines, extension="csv")
    feed.checkpoint(V + 1000)
    return {
        "upstream_uri": f"file://{folder}?protocol=csv",
        "downstream_uri": f"memory://{folder.parent.name}",
        "tz": "UTC",
    }


@pytest.fixture
def hexadecimal(tmp_path: Path) -> dict[str, str]:
    rows = b"".join(b'"I","t","d",%d,%d,"%b"\r\n' % (V + 10 + n, n, u.encode()) for n, u in enumerate(UUIDS))
    return storage(tmp_path / "hexadecimal", Column(name="v", type="VARBINARY", length=64), rows)


def once(settings: Settings) -> list[object]:
    result = app.once(settings, Recorder(), InlineLoader())
    assert [table.error for table in result.tables.values()] == [""]
    (table,) = MemorySink(settings.downstream_uri.removeprefix("memory://"), "default")._store.tables.values()
    return [dict(row)["v"] for row in sorted(table.rows, key=repr)]


def test_what_inspect_prints_does_not_run_until_the_encoding_is_said(
    hexadecimal: dict[str, str], tmp_path: Path
) -> None:
    found = inspect(load(hexadecimal, {}, kind=InspectSettings).settings, Recorder())
    assert '# binary-encoding-method = "base64"' in found.toml
    assert any("binary-encoding-method" in finding for finding in found.findings)
    config = tmp_path / "changefeed.toml"
    config.write_text(found.toml, encoding="utf-8")
    with pytest.raises(
        BadConfig, match=r"d.t.v can be base64 or hex, and binary-encoding-method is not set"
    ) as refused:
        once(load(hexadecimal, {}, str(config)).settings)
    assert "or set binary-encoding-method in its [sink.csv]" in refused.value.hint
    config.write_text(found.toml.replace('# binary-encoding-method = "base64"', 'binary-encoding-method = "hex"'))
    assert once(load(hexadecimal, {}, str(config)).settings) == [bytes.fromhex(u) for u in UUIDS]


def test_the_environment_alone_does_not_leave_it_to_a_default(hexadecimal: dict[str, str]) -> None:
    env = {"STORAGE_CONSUMER_CSV_INCLUDE_COMMIT_TS": "true"}
    with pytest.raises(BadConfig, match="binary-encoding-method is not set"):
        app.plan(load(hexadecimal, env).settings, Recorder())
    assert once(load(hexadecimal, env | {ENCODING: "hex"}).settings) == [bytes.fromhex(u) for u in UUIDS]


def test_a_changefeeds_own_file_means_ticdcs_default(hexadecimal: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text("[sink.csv]\ninclude-commit-ts = true\n", encoding="utf-8")
    assert once(load(hexadecimal, {}, str(config)).settings) == [base64.b64decode(u) for u in UUIDS]


def test_tables_without_binary_columns_need_no_encoding(tmp_path: Path) -> None:
    rows = b"".join(b'"I","t","d",%d,%d,"x"\r\n' % (V + 10 + n, n) for n in range(2))
    flags = storage(tmp_path / "texts", Column(name="v", type="VARCHAR", length=20), rows)
    env = {"STORAGE_CONSUMER_CSV_INCLUDE_COMMIT_TS": "true"}
    assert once(load(flags, env).settings) == ["x", "x"]


def test_without_quotes_a_null_that_nothing_shows_is_asked_for(tmp_path: Path) -> None:
    rows = b"".join(b"I,t,d,%d,%d,%b\r\n" % (V + 10 + n, n, v) for n, v in enumerate((b"x", b"NULL")))
    flags = storage(tmp_path / "words", Column(name="v", type="VARCHAR", length=20), rows)
    found = inspect(load(flags, {}, kind=InspectSettings).settings, Recorder())
    config = tmp_path / "changefeed.toml"
    config.write_text(found.toml, encoding="utf-8")
    with pytest.raises(BadConfig, match=r"d.t.v may be NULL, and null is not set"):
        once(load(flags, {}, str(config)).settings)
    null = {"STORAGE_CONSUMER_CSV_NULL": "\\N"}
    assert once(load(flags, null, str(config)).settings) == ["x", "NULL"]
