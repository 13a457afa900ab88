"""Rows that do not say enough stop their table. To load them again does not help, and what the hint says does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.hints import FROM_A_NEW_PREFIX, WITH_A_COPY
from consumer.model.names import TableName
from tests.support.build import ID, VALUE
from tests.support.canal_json import row_line
from tests.support.feed import Feed, MemoryReplica
from tests.support.memory.store import MemoryTable

T = TableName("d", "t")
V, W = Column("v", "INT"), Column("w", "INT")
KEYED, BARE = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT)", "CREATE TABLE `t` (`v` INT)"
B = 400000000000000000
"""Commit-ts are small numbers above it."""
MS = B >> 18
CSV: dict[str, object] = {"csv_include_commit_ts": True}
OLD: dict[str, object] = {**CSV, "csv_output_old_value": True}


def json_row(kind: str, row: dict[str, str | None], ts: int | None = None, **members: object) -> bytes:
    return row_line(kind, row, commit_ts=None if ts is None else B + ts, **members) + b"\r\n"


def csv_row(cells: str) -> bytes:
    """A row of d.t: its operation and what follows the names; ``@`` is before a commit-ts."""
    rest = re.sub(r"@(\d+)", lambda found: str(B + int(found[1])), cells[2:])
    return b'"%b","t","d",%b\r\n' % (cells[0].encode(), rest.encode("latin-1"))


@dataclass(frozen=True)
class Case:
    """Files that stop the table. `later`: what the changefeed writes once it is as the hint says."""

    words: str
    files: tuple[bytes, ...]
    create: str = BARE
    columns: tuple[Column, ...] = (V,)
    later: bytes = json_row("INSERT", {"v": "7"}, 30)
    said: dict[str, object] = field(default_factory=dict)
    """Settings of the first run."""
    anew: dict[str, object] | None = None
    """Settings of the new prefix; None: the rows go on in the same one."""
    series: bool = False
    """Each file is of a dispatcher of its own."""

    @property
    def protocol(self) -> str:
        return "csv" if self.files[0].startswith(b'"') else "canal-json"


PK = json_row("INSERT", {"id": "7", "v": "7"}, 30, pkNames=["id"])
CASES = {
    "codec/errors.py:old_missing": Case(
        "set enable-old-value=true",
        (json_row("INSERT", {"v": "1"}, 10) + json_row("UPDATE", {"v": "2"}, 11),),
        later=json_row("UPDATE", {"v": "7"}, 30, old=[{"v": "1"}]),
    ),
    "codec/errors.py:no_commit_ts": Case(
        "set enable-tidb-extension=true", (json_row("INSERT", {"v": "1"}, es=MS),), anew={}
    ),
    "codec/errors.py:key_lacking": Case(
        "let the selectors keep the columns", (json_row("INSERT", {"v": "1"}, 10),), KEYED, (ID, VALUE), PK
    ),
    "codec/errors.py:key_null": Case(
        "give the table a primary key",
        (json_row("INSERT", {"id": None, "v": "1"}, 10),),
        *(KEYED, (replace(ID, nullable=True), VALUE), PK),
    ),
    "codec/errors.py:key_missing": Case(
        "unset the option", (json_row("DELETE", {"v": "1"}, 10),), KEYED, (ID, VALUE), PK
    ),
    "codec/errors.py:carrying": Case(
        "see that rows stay of one kind",
        (json_row("INSERT", {"id": "1"}, 10) + json_row("INSERT", {"id": "2", "v": "1"}, 11),),
        *(KEYED, (ID, VALUE), PK),
    ),
    "changes/keyless.py:_written_again": Case(
        "give the table a primary key",
        (json_row("INSERT", {"v": "1"}, 10) + json_row("INSERT", {"v": "2"}, 10), json_row("INSERT", {"v": "1"}, 10)),
    ),
    "changes/keyless.py:_refuse_shared": Case(
        "else give the table a primary key",
        (json_row("INSERT", {"v": "1"}, 10), json_row("INSERT", {"v": "1"}, 10)),
        series=True,
    ),
    "changes/keyless.py:_compare": Case(
        "take it out of never-split",
        (
            json_row("INSERT", {"v": "1"}, 10) + json_row("INSERT", {"v": "2"}, 13),
            b"".join(json_row("INSERT", {"v": v}, ts) for v, ts in (("1", 10), ("3", 12), ("1", 14))),
        ),
        said={"never_split": "d.t"},
        series=True,
    ),
    "changes/keyed.py:_refuse_given_away": Case(
        "set enable-tidb-extension=true",
        (
            json_row("INSERT", {"id": "1", "v": "1"}, es=MS, pkNames=["id"])
            + json_row("UPDATE", {"id": "2", "v": "1"}, es=MS, pkNames=["id"], old=[{"id": "1"}]),
        ),
        *(KEYED, (ID, VALUE), PK),
        anew={},
    ),
    "changes/keyed.py:_refuse_unordered": Case(
        "set enable-tidb-extension=true",
        tuple(json_row("INSERT", {"id": "1", "v": v}, es=MS, pkNames=["id"]) for v in "12"),
        *(KEYED, (ID, VALUE), PK),
        series=True,
        anew={},
    ),
    "changes/keyed.py:_refuse_timeless": Case(
        "set include-commit-ts=true",
        (csv_row("I,1,1"), csv_row("I,1,2")),
        *(KEYED, (ID, VALUE), csv_row("I,@30,7,7")),
        series=True,
        anew=CSV,
    ),
    "codec/csv/protocol.py:csv_layouts": Case(
        "set output-old-value=true", (csv_row("I,@10,1"),), later=csv_row("I,@30,false,7"), said=CSV, anew=OLD
    ),
    "codec/csv/errors.py:inexact": Case(
        "set include-commit-ts=true",
        (csv_row("I,false,1"),),
        later=csv_row("I,@30,false,7"),
        said={"csv_output_old_value": True},
        anew=OLD,
    ),
    "codec/csv/errors.py:drift": Case(
        "set output-field-header=true",
        (csv_row("I,@10,1"),),
        *(KEYED, (ID, VALUE)),
        later=b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,id,v\r\n"
        + csv_row("I,@30,7,7"),
        said=CSV,
        anew=CSV | {"csv_output_field_header": True},
    ),
    "codec/csv/changes.py:_cast": Case(
        "replace the value upstream",
        (csv_row('I,@10,1,"\xff"'),),
        "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` VARCHAR(9))",
        (ID, Column("v", "VARCHAR", length=9)),
        csv_row('I,@30,7,"7"'),
        said=CSV,
    ),
    "codec/csv/errors.py:inexact of a NULL": Case(
        "set `quote`, or a `null` that no text can be",
        (b"I,t,d,%d,1,NULL\r\n" % (B + 10),),
        "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` VARCHAR(9))",
        (ID, Column("v", "VARCHAR", length=9)),
        b"I,t,d,%d,7,7\r\n" % (B + 30),
        said=CSV | {"csv_quote": "", "csv_null": "NULL", "upstream": "csv"},
        anew=CSV | {"csv_quote": "", "csv_null": r"\N"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_copy_from_upstream_goes_on_where_the_rows_are_whole(case: Case, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "first")
    feed.statement("d.t", 2, Action.CREATE_TABLE, case.create, case.columns)
    replica = MemoryReplica(feed)
    protocol = str(case.said.get("upstream", case.protocol))
    for number, content in enumerate(case.files, 1):
        dispatcher = str(number) * 38 if case.series else ""
        feed.file("d.t", 2, content, extension="csv" if protocol == "csv" else "json", dispatcher=dispatcher)
    said = {"upstream_uri": f"file://{feed.folder}?protocol={protocol}", **case.said}
    said.pop("upstream", None)
    result = replica.once(B + 20, tz="UTC", **said)
    assert result.exit_code == 3
    hint = result.tables[T].hint
    assert case.words in hint
    assert (FROM_A_NEW_PREFIX if case.anew is not None else WITH_A_COPY) in hint
    if case.anew is not None:
        feed = Feed(tmp_path / "second")
        feed.describe("d.t", B + 26, case.columns)
        said = {"upstream_uri": f"file://{feed.folder}?protocol={protocol}", **case.anew}
    replica.sink._store.tables[T] = MemoryTable(
        case.columns, [{"id": "1", "v": "1"} if "id" in {column.name for column in case.columns} else {"v": "1"}]
    )
    version = 2 if case.anew is None else B + 26
    feed.file("d.t", version, case.later, extension="csv" if protocol == "csv" else "json")
    feed.checkpoint(B + 40)
    result = replica.once(tz="UTC", name="new", start_ts=str(B + 25), tables="d.t", **said)
    assert result.exit_code == 0, result.tables[T]
    assert "7" in {row["v"] for row in replica.sink.rows(T)}
