"""Settings that are not the changefeed's and files that are damaged: set, or taken away, as the hint says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.config.load import load
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.support.command_line import command_line
from tests.support.feed import Feed, MemoryReplica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

B = 400000000000000000
T = TableName("d", "t")
ID = Column("id", "INT", nullable=False, is_pk=True)
V, TEXT, BYTES = Column("v", "INT"), Column("v", "VARCHAR", length=40), Column("v", "VARBINARY", length=40)
TS, OLD, ENCODING = "csv_include_commit_ts", "csv_output_old_value", "csv_binary_encoding_method"
HEADER = b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,id,v\r\n"


def row(cells: str, quote: str = '"') -> bytes:
    """A row of d.t with the commit-ts of B + 10."""
    return "".join(f"{quote}{text}{quote}," for text in ("I", "t", "d")).encode() + f"{B + 10},{cells}".encode()


@dataclass(frozen=True)
class Case:
    """A file that cannot be read with `wrong` and can with `right`, which is what `words` say."""

    words: str
    content: bytes
    right: dict[str, object]
    column: Column = V
    wrong: dict[str, object] = field(default_factory=dict)
    value: object = "7"


SEVEN = row("1,7\r\n")
CASES = {
    "header": Case(
        "set `output-field-header` in [sink.csv] to true", HEADER + SEVEN, {"csv_output_field_header": True}
    ),
    "quote": Case("`quote` in [sink.csv] is '\"' here, and looks to be", row("1,7\r\n", "'"), {"csv_quote": "'"}),
    "delimiter": Case("looks to be ';' in the changefeed", SEVEN.replace(b",", b";"), {"csv_delimiter": ";"}),
    "commit-ts": Case("`include-commit-ts` in [sink.csv] looks to be true", SEVEN, {}, wrong={TS: False}),
    "old value": Case("`output-old-value` in [sink.csv] looks to be true", row("false,1,7\r\n"), {OLD: True}),
    "terminator": Case(r"`terminator` in [sink] is '\n' here", row('1,"7"\r\n'), {}, TEXT, wrong={"terminator": "\n"}),
    "null": Case("check that `null`", row("1,nil\r\n"), {"csv_null": "nil"}, value=None),
    "null of a text": Case(
        r"`null` in [sink.csv] is 'nil' here, and looks to be '\\N' in the changefeed",
        *(row("1,\\N\r\n"), {"csv_null": "\\N"}, TEXT, {"csv_null": "nil"}, None),
    ),
    "hex": Case(
        "`binary-encoding-method` in [sink.csv] must be the changefeed's",
        row('1,"Nw=="\r\n'),
        *({ENCODING: "base64"}, BYTES, {ENCODING: "hex"}, b"7"),
    ),
}


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "storage")


def table(feed: Feed, column: Column = V) -> MemoryReplica:
    kind = f"{column.type}({column.length})" if column.length else column.type
    feed.statement("d.t", 2, Action.CREATE_TABLE, f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` {kind})", (ID, column))
    return MemoryReplica(feed)


def csv(feed: Feed, *settings: dict[str, object]) -> dict[str, object]:
    found: dict[str, object] = {"upstream_uri": f"file://{feed.folder}?protocol=csv", "tz": "UTC", TS: True}
    for more in settings:
        found |= more
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_setting_that_the_hint_names(case: Case, feed: Feed) -> None:
    replica = table(feed, case.column)
    feed.file("d.t", 2, case.content, extension="csv")
    stopped = replica.once(B + 20, **csv(feed, case.wrong))
    assert stopped.exit_code == 3
    assert case.words in stopped.tables[T].hint
    assert replica.once(**csv(feed, case.right)).exit_code == 0
    assert [r["v"] for r in replica.sink.rows(T)] == [case.value]


def test_a_wrong_setting_is_found_by_inspect_and_no_resync_is_offered(
    feed: Feed, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table(feed)
    feed.file("d.t", 2, (SEVEN + row("2,8\r\n")).replace(b",", b";"), extension="csv")
    feed.checkpoint(B + 20)
    (tmp_path / "cli").mkdir()
    cli = command_line(tmp_path / "cli", capsys, monkeypatch)
    upstream = ("--upstream-uri", f"file://{feed.folder}?protocol=csv", "--tz", "UTC")
    flags = (*upstream, "--downstream-uri", cli.target)
    for left in (cli.raw("once", *flags), cli.raw("status", *flags)):
        told = left.out + left.err
        assert "looks to be ';' in the changefeed; `inspect --toml` prints the settings as the files show" in told
        assert "resync" not in told
    found = tmp_path / "changefeed.toml"
    found.write_text(cli.raw("inspect", *upstream, "--toml").out, encoding="utf-8")
    assert cli.raw("once", *flags, "--config", str(found)).code == 0


@pytest.mark.parametrize("damage", ['"\r\n', "1,x\r\n"])
def test_a_damaged_file_is_taken_away(damage: str, feed: Feed) -> None:
    replica = table(feed)
    damaged = feed.file("d.t", 2, row(damage), extension="csv")
    feed.file("d.t", 2, row("2,7\r\n"), extension="csv")
    stopped = replica.once(B + 20, **csv(feed))
    assert stopped.exit_code == 3
    assert (
        "remove it and continue without its rows: storage-consumer once --accept-gap-in d.t" in stopped.tables[T].hint
    )
    damaged.unlink()
    assert replica.once(**csv(feed, {"accept_gap_in": ["*.*"]})).exit_code == 0
    assert replica.tables["d.t"] == {2: "7"}


def test_old_keys_that_are_lost(feed: Feed) -> None:
    replica = table(feed)
    feed.file("d.t", 2, row("1,7\r\n"), extension="csv")
    raw = csv(feed, {"output_raw_change_event": True})
    with pytest.raises(BadConfig) as refused:
        replica.once(B + 20, **raw)
    assert "continue with --accept-key-loss" in refused.value.hint
    assert "output-raw-change-event=false" in refused.value.hint
    assert replica.once(**raw, accept_key_loss=True).exit_code == 0
    assert replica.once(**csv(feed, {"output_raw_change_event": False})).exit_code == 0


def test_cells_that_nothing_separates(feed: Feed) -> None:
    replica = table(feed)
    feed.file("d.t", 2, row("1,7\r\n"), extension="csv")
    with pytest.raises(BadConfig) as refused:
        replica.once(B + 20, **csv(feed, {"csv_quote": "", "csv_delimiter": "\\"}))
    assert "give the changefeed's own values" in refused.value.hint
    assert replica.once(**csv(feed)).exit_code == 0


def test_a_range_of_rows_that_have_no_time(
    feed: Feed, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table(feed)
    feed.file("d.t", 2, b'"I","t","d",1,7\r\n', extension="csv")
    feed.checkpoint(B + 20)
    (tmp_path / "cli").mkdir()
    cli = command_line(tmp_path / "cli", capsys, monkeypatch)
    flags = ("--upstream-uri", f"file://{feed.folder}?protocol=csv", "--downstream-uri", cli.target, "--tz", "UTC")
    left = cli.raw("replay", *flags, "--to-ts", str(B + 15))
    assert (left.code, "leave --from-ts and --to-ts out" in left.err) == (2, True)
    assert cli.raw("replay", *flags).code == 0


def test_labels_that_nothing_in_the_storage_tells(feed: Feed, cli_target: str) -> None:
    feed.describe("d.t", 2, (ID, Column("v", "ENUM")))
    feed.file("d.t", 2, row('1,"x"\r\n'), extension="csv")
    feed.create("d.u", 3)
    replica = MemoryReplica(feed)
    replica._downstream = cli_target
    stopped = replica.once(B + 20, **csv(feed))
    assert stopped.exit_code == 3
    assert "leave it out with --tables" in stopped.tables[T].hint
    assert replica.once(**csv(feed, {"tables": "*.*,!d.t"})).exit_code == 0


@pytest.fixture
def cli_target(tmp_path: Path) -> str:
    with duckdb.connect(str(tmp_path / "replica.duckdb")) as connection:
        connection.execute("CREATE SCHEMA d")
        connection.execute("CREATE TABLE d.t (id INT, v VARCHAR)")
    return f"duckdb:///{tmp_path}/replica.duckdb"


def test_a_time_that_the_clocks_of_the_zone_never_showed(feed: Feed, tmp_path: Path) -> None:
    replica = table(feed, Column("v", "TIMESTAMP"))
    feed.file("d.t", 2, row('1,"2026-03-29 02:30:00"\r\n'), extension="csv")
    stopped = replica.once(B + 20, **csv(feed, {"tz": "Europe/Berlin"}))
    assert stopped.exit_code == 3
    assert "fill an empty target under another --name with --tz" in stopped.tables[T].hint
    other = MemoryReplica(feed)
    other._downstream += "-other"
    assert other.once(**csv(feed, {"tz": "Asia/Shanghai", "name": "other"})).exit_code == 0


def test_an_option_that_the_storage_does_not_show(feed: Feed, tmp_path: Path) -> None:
    replica = table(feed)
    feed.file("d.t", 2, row("1,7\r\n"), extension="csv")
    feed.checkpoint(B + 20)
    config = tmp_path / "c.toml"
    said = '[sink.csv]\ninclude-commit-ts = true\n{}[consumer]\nunproven = ["output-old-value"]\n'
    flags = csv(feed, {"downstream_uri": replica._downstream})
    flags.pop(TS)
    config.write_text(said.format(""), encoding="utf-8")
    with pytest.raises(BadConfig) as refused:
        app.once(load(flags, {}, str(config)).settings, Recorder(), InlineLoader())
    assert "set output-old-value in the file as the changefeed has it" in refused.value.hint
    config.write_text(said.format("output-old-value = false\n"), encoding="utf-8")
    assert app.once(load(flags, {}, str(config)).settings, Recorder(), InlineLoader()).exit_code == 0
