"""`changes` beside the lines of the files, read here by Python's own JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from consumer import api
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.canal_json import keyless, row_line, typed_line
from tests.support.command_line import DEMO, T_CREATED, CommandLine, Left, command_line
from tests.support.feed import Feed

OPS = {"INSERT": "I", "UPDATE": "U", "DELETE": "D"}
Change = tuple[int, str, int, int | None]


@pytest.fixture
def consumer(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


def expected() -> list[Change]:
    """Commit-ts, kind, id and v of all changes of table t, each once."""
    found: set[Change] = set()
    for file in (DEMO / "du" / "t").glob("*/*/*.json"):
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            for row in event["data"]:
                value = None if row["v"] is None else int(row["v"])
                found.add((event["_tidb"]["commitTs"], OPS[event["type"]], int(row["id"]), value))
    return sorted(found)


def shown(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def test_every_change_once_in_order(consumer: CommandLine) -> None:
    left = consumer.run("changes", "--table", "du.t", "--format", "jsonl", "--json")
    *lines, last = left.out.splitlines()
    found = [(row["_commit_ts"], row["_op"], row["id"], row["v"]) for row in shown(lines)]
    assert [ts for ts, *_ in found] == sorted(ts for ts, *_ in found)
    assert sorted(found) == expected()
    assert (left.code, json.loads(last)["changes"]) == (0, len(found))


def test_a_float_has_the_digits_of_upstream(consumer: CommandLine, tmp_path: Path) -> None:
    columns = (Column("id", "INT", nullable=False, is_pk=True), Column("f", "FLOAT"))
    feed = Feed(tmp_path / "floats")
    feed.statement("d.t", 10, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY, `f` FLOAT)", columns)
    old, new = {"id": "1", "f": "0.1"}, {"id": "1", "f": "3.4028235e38"}
    lines = typed_line(columns, 11, old) + typed_line(columns, 12, new, "UPDATE", old=[{"f": "0.1"}])
    feed.file("d.t", 10, lines)
    feed.checkpoint(20)
    there = ("--upstream-uri", f"file://{feed.folder}?protocol=canal-json", "--table", "d.t")
    assert "f: 0.1 -> 3.4028235e+38" in consumer.run("changes", *there).out
    *lines, _ = consumer.run("changes", *there, "--format", "jsonl", "--json").out.splitlines()
    assert [(row["f"], row["_before"]) for row in shown(lines)] == [
        (0.1, None),
        (3.4028235e38, {"id": 1, "f": 0.1}),
    ]


def stands(storage: Path, change: dict[str, Any]) -> None:
    """At its line is a change of the same row, kind and time."""
    line = (storage / change["_file"]).read_bytes().split(b"\r\n")[change["_line"] - 1]
    event = json.loads(line)
    assert (event["_tidb"]["commitTs"], OPS[event["type"]]) == (change["_commit_ts"], change["_op"])
    assert [int(row["id"]) for row in event["data"]] == [change["id"]]


@pytest.mark.parametrize("bytes_of_a_slice", [0, 700])
def test_each_change_says_its_file_and_line(
    consumer: CommandLine, monkeypatch: pytest.MonkeyPatch, bytes_of_a_slice: int
) -> None:
    """Of files that are read in slices, and in several shares, too."""
    if bytes_of_a_slice:
        monkeypatch.setattr("consumer.pipeline.version_consumer.SLICE_BYTES", bytes_of_a_slice)
        monkeypatch.setattr("consumer.source.options._SHARE", 1)
    found = shown(consumer.run("changes", "--table", "du.t", "--format", "jsonl").out.splitlines())
    for change in found:
        stands(consumer.storage, change)
    assert len({(change["_file"], change["_line"]) for change in found}) == len(found) == len(expected())


@pytest.mark.parametrize("row", [1, 2, 9])
def test_the_story_of_a_row(consumer: CommandLine, row: int) -> None:
    lines = consumer.run("changes", "--table", "du.t", "--key", str(row), "--format", "jsonl").out.splitlines()
    found = shown(lines)
    assert [(x["_commit_ts"], x["_op"], x["id"], x["v"]) for x in found] == [x for x in expected() if x[2] == row]
    for before, after in pairwise(found):
        if after["_op"] == "U":
            assert after["_before"]["v"] == before["v"]
    assert all((change["_before"] is None) == (change["_op"] == "I") for change in found)


def test_a_range_and_an_expression(consumer: CommandLine) -> None:
    every = expected()
    first, last = every[3][0], every[-3][0]
    words = ("--from-ts", str(first), "--to-ts", str(last), "--where", "id in (1, 2) or v = 9", "--format", "csv")
    lines = consumer.run("changes", "--table", "du.t", *words).out.splitlines()
    assert lines[0] == "_commit_time,_op,_commit_ts,_file,_line,id,v,u,w"
    wanted = [x for x in every if first < x[0] <= last and (x[2] in (1, 2) or x[3] == 9)]
    cells = [line.split(",") for line in lines[1:]]
    found = {(int(ts), op, int(key), int(v) if v else None) for _, op, ts, _, _, key, v, *_ in cells}
    assert set(wanted) <= found
    # An update away from what the expression asks for is among them, by what it found.
    rest = found - set(wanted)
    assert all(op == "U" for _, op, _, _ in rest)


def test_a_person_reads_what_changed(consumer: CommandLine) -> None:
    lines = consumer.run("changes", "--table", "du.t", "--key", "6").out.splitlines()
    folder = "du/t/470611618363867136/2026-11-21"
    assert lines == [
        f"2026-11-21T06:00:57.958Z  I  id=6, v=6, u=6, w=1  {folder}/CDC00000000000000000004.json:11",
        f"2026-11-21T06:00:57.986Z  U  v: 6 -> 66  (id=6, u=6, w=1)  {folder}/CDC00000000000000000004.json:12",
        "2 changes of du.t up to 2026-11-21T06:01:21.857Z",
    ]


KEY, NOTE = Column("k", "VARCHAR", length=20, nullable=False, is_pk=True), Column("note", "VARCHAR", length=20)
ODD = 'a\tb\x1b\xa0\x9b"c"\r\nd,\u2028e'


def told(consumer: CommandLine, folder: Path, columns: tuple[Column, ...], rows: list[Row], *words: str) -> Left:
    """What the command prints of a table d.t with these rows, each of a commit of its own from 11 on."""
    feed = Feed(folder / "storage of its own")
    feed.database("d", 1)
    feed.statement("d.t", 2, Action.CREATE_TABLE, "CREATE TABLE `t` (..)", columns)
    lines = (typed_line(columns, 11 + number, row) for number, row in enumerate(rows))
    feed.file("d.t", 2, b"".join(lines))
    feed.checkpoint(40)
    storage = ("--upstream-uri", f"file://{feed.folder}?protocol=canal-json", "--tz", "UTC")
    return consumer.raw("changes", "--table", "d.t", *words, *storage, "--log-level", "error")


Row = dict[str, str | None]


def test_csv_has_values_as_they_are(consumer: CommandLine, tmp_path: Path) -> None:
    """NULL is nothing, an empty text has quotation marks."""
    rows: list[Row] = [{"k": "null", "note": None}, {"k": "empty", "note": ""}, {"k": "odd", "note": ODD}]
    left = told(consumer, tmp_path, (KEY, NOTE), rows, "--format", "csv")
    head, *lines = left.out.split("\n")[:3]
    assert head.split(",")[-2:] == ["k", "note"]
    assert [line.split(",")[-2:] for line in lines] == [["null", ""], ["empty", '""']]
    assert left.out.endswith(',odd,"a\tb\x1b\xa0\x9b""c""\r\nd,\u2028e"\n')


def test_json_has_values_as_they_are(consumer: CommandLine, tmp_path: Path) -> None:
    left = told(consumer, tmp_path, (KEY, NOTE), [{"k": "odd", "note": ODD}], "--format", "jsonl")
    assert json.loads(left.out)["note"] == ODD


@pytest.mark.parametrize(
    ("key", "rows", "given"),
    [
        (KEY, ("a", "A", "a ", "it's \\'"), "a"),
        (KEY, ("a", "it's \\'"), "it's \\'"),
        (replace(KEY, type="ENUM", elements=("x", "y")), ("1", "2"), "y"),
        (replace(KEY, type="VARBINARY"), ("ab", "\xff\x00"), "0xff00"),
        (replace(KEY, type="VARBINARY"), ("ab", "0x"), "0x"),
        (KEY, ("a", ""), ""),
        (replace(KEY, type="DATE"), ("2024-02-28", "2024-02-29"), "2024-02-29"),
    ],
)
def test_a_key_that_is_no_number_is_compared_byte_by_byte(
    consumer: CommandLine, tmp_path: Path, key: Column, rows: tuple[str, ...], given: str
) -> None:
    wanted = {"y": "2", "0xff00": "\xff\x00"}.get(given, given)
    every: list[Row] = [{"k": one, "note": str(number)} for number, one in enumerate(rows)]
    left = told(consumer, tmp_path, (key, NOTE), every, "--key", given, "--format", "jsonl")
    assert [json.loads(line)["note"] for line in left.out.splitlines()] == [str(rows.index(wanted))], left.err


def test_a_text_without_a_collation_says_how_to_write_it(consumer: CommandLine, tmp_path: Path) -> None:
    rows: list[Row] = [{"k": "a", "note": "BAD"}, {"k": "b", "note": "bad"}]
    left = told(consumer, tmp_path, (KEY, NOTE), rows, "--key", "a", "--where", "note = 'BAD'")
    assert left.code == 2
    assert "--where is refused" in left.err
    assert "as 'a' COLLATE utf8mb4_bin" in left.err
    left = told(consumer, tmp_path / "2", (KEY, NOTE), rows, "--where", "note = 'BAD' COLLATE utf8mb4_bin")
    assert (left.code, "k='a'" in left.out, "k='b'" in left.out) == (0, True, False)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--table", "du.nope"), 2, "no such table"),
        (("--table", "du.t", "--key", "x"), 2, "is not a number"),
        (("--table", "du.t", "--key", "1", "--key", "2"), 2, "the key has 1 column (id), and 2 values are given"),
        (("--table", "du.t", "--where", "nope = 1"), 2, "no column nope"),
        (("--table", "du.t", "--format", "xml"), 2, "none of text, jsonl, csv"),
        (("--table", "du.t", "--to-ts", "2027-01-01T00:00:00Z"), 4, "complete only up to"),
        (("--table", "du.t", "--from-ts", "9", "--to-ts", "8"), 2, "is not after"),
    ],
)
def test_what_is_refused(consumer: CommandLine, words: tuple[str, ...], code: int, says: str) -> None:
    left = consumer.run("changes", *words)
    assert (left.code, says in left.err) == (code, True), left.err


def test_a_damaged_file_ends_it_by_name(consumer: CommandLine) -> None:
    damaged = consumer.data_file("t", T_CREATED, 1)
    damaged.write_bytes(damaged.read_bytes()[:-20])
    left = consumer.run("changes", "--table", "du.t")
    assert left.code in (3, 5)
    assert damaged.name in left.err


def test_from_python(consumer: CommandLine) -> None:
    found = api.changes("du.t", [6], upstream_uri=f"file://{consumer.storage}?protocol=canal-json", tz="UTC")
    assert [change["v"] for batch in found for change in batch.to_pylist()] == [6, 66]


def test_masked_columns_stay_masked_and_filters_are_refused(consumer: CommandLine, tmp_path: Path) -> None:
    """Also for the expression that chooses changes."""
    masks = tmp_path / "masks.toml"
    masks.write_text('[[consumer.masks]]\ntables = ["du.*"]\ncolumns = ["v"]\nmask = "null"\n')
    lines = consumer.run("changes", "--table", "du.t", "--format", "jsonl", "--config", str(masks)).out.splitlines()
    found = shown(lines)
    assert [(row["_commit_ts"], row["_op"], row["id"]) for row in found] == [row[:3] for row in expected()]
    assert {row["v"] for row in found} | {row["_before"]["v"] for row in found if row["_before"]} == {None}
    assert (
        consumer.run("changes", "--table", "du.t", "--where", "v = 66", "--config", str(masks)).out[:9] == "0 changes"
    )
    masks.write_text('[[consumer.rows]]\ntables = ["du.*"]\nwhere = "id > 1"\n')
    left = consumer.run("changes", "--table", "du.t", "--config", str(masks))
    assert (left.code, "its changes can only be read unfiltered" in left.err) == (3, True)


def test_copies_of_a_row_with_no_key_stand_at_lines_of_their_own(tmp_path: Path) -> None:
    """An UPDATE is a row that goes and one that comes, both of its line. What was sent again counts once."""
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.statement("d.k", 2, Action.CREATE_TABLE, "CREATE TABLE `k` (`v` INT)", (Column("v", "INT", length=11),))
    change = row_line("UPDATE", {"v": "2"}, commit_ts=12, table="k", old=[{"v": "1"}], mysqlType={"v": "int"}) + b"\r\n"
    lines = [keyless(11, 1), keyless(11, 1), keyless(11, 5), change, keyless(13, 1, "DELETE")]
    feed.file("d.k", 2, b"".join(lines))
    feed.file("d.k", 2, b"".join(lines[3:]))
    feed.checkpoint(20)
    found = [
        (row["_commit_ts"], row["_op"], row["v"], row["_before"], Path(row["_file"]).name[-6:], row["_line"])
        for batch in api.changes("d.k", upstream_uri=f"file://{tmp_path}?protocol=canal-json", tz="UTC")
        for row in batch.to_pylist()
    ]
    assert sorted(found, key=lambda row: row[-1:] + row[:2]) == [
        (11, "I", 1, None, "1.json", 1), (11, "I", 1, None, "1.json", 2), (11, "I", 5, None, "1.json", 3),
        (12, "D", 1, {"v": 1}, "1.json", 4), (12, "I", 2, None, "1.json", 4), (13, "D", 1, {"v": 1}, "1.json", 5),
    ]  # fmt: skip
