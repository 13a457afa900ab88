"""Files that are still on their way while a listing is made, and files that cannot be read at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from consumer.errors import StorageUnavailable
from consumer.model.actions import Action
from consumer.model.files import Listing
from consumer.model.names import TableName
from consumer.pipeline.manager import ConsumerManager
from consumer.storage.local import LocalFiles
from consumer.storage.reader import ChangefeedReader
from tests.support.feed import Feed, MemoryReplica, states


def overlook(monkeypatch: pytest.MonkeyPatch, looks: int, number: int) -> None:
    """The first listings do not show the files of that number."""
    real: Callable[..., Listing] = ChangefeedReader.listing
    left = [looks]

    def listing(self: ChangefeedReader, *arguments: Any) -> Listing:
        found = real(self, *arguments)
        left[0] -= 1
        if left[0] < 0:
            return found
        files = {root: [file for file in group if file.index != number] for root, group in found.files.items()}
        return replace(found, files=files)

    monkeypatch.setattr(ChangefeedReader, "listing", listing)


@pytest.mark.parametrize("first_run", [True, False])
def test_a_number_that_is_listed_before_the_one_in_front_of_it_is_no_gap(
    first_run: bool, feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    if not first_run:
        replica.once(15)
    feed.puts("d.t", 2, {20: (2, "b")})
    feed.puts("d.t", 2, {21: (3, "c")})
    overlook(monkeypatch, 1, 2)
    assert states(replica.once(16)) == {"d.t": "ok"}
    assert replica.once(25).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 2: "b", 3: "c"}}


def test_a_number_that_stays_away_is_a_gap_that_is_looked_for_once(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    replica.once(15)
    feed.puts("d.t", 2, {20: (2, "b")})
    feed.puts("d.t", 2, {21: (3, "c")})
    overlook(monkeypatch, 2, 2)
    result = replica.once(16)
    assert (result.exit_code, states(result)) == (5, {"d.t": "stopped"})
    assert replica.once(25).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 2: "b", 3: "c"}}


# Files that are being written


@pytest.mark.parametrize("cut", [0, 60, "line"])
def test_a_half_written_file_above_the_checkpoint_stops_nothing(
    cut: int | str, feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    feed.puts("d.t", 2, {20: (2, "b"), 25: (2, "c")})
    last = feed.puts("d.t", 2, {30: (3, "d"), 40: (4, "e")})
    whole = last.read_bytes()
    last.write_bytes(whole[: whole.index(b"\r\n") + 12] if cut == "line" else whole[: int(cut)])
    assert states(replica.once(15)) == {"d.t": "ok"}
    assert replica.tables == {"d.t": {1: "a"}}
    last.write_bytes(whole)
    assert replica.once(45).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 2: "c", 3: "d", 4: "e"}}


def test_a_file_that_is_written_while_it_is_read_is_left_to_the_next_round(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    last = feed.puts("d.t", 2, {20: (2, "b")})
    real: Callable[..., Listing] = ChangefeedReader.listing

    def listing(self: ChangefeedReader, *arguments: Any) -> Listing:
        found = real(self, *arguments)
        with last.open("ab") as file:
            file.write(feed._line("d.t", 21, 3, "c"))
        return found

    monkeypatch.setattr(ChangefeedReader, "listing", listing)
    assert replica.once(15).exit_code == 0
    assert replica.tables == {"d.t": {1: "a"}}
    monkeypatch.undo()
    assert replica.once(25).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 2: "b", 3: "c"}}


@pytest.mark.parametrize("part", [0.0001, 0.7])
@pytest.mark.parametrize("changes", [False, True])
def test_a_file_above_the_checkpoint_is_left_to_a_later_round_though_its_first_row_is_not_whole(
    part: float, changes: bool, feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two MiB are more than what is looked at."""
    checkpoint = 15 << 18
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "1")})
    whole = feed._line("d.t", (30 << 18) + 5, 2, "9" * (2 << 20)).replace(b'"es": 0', b'"es": 30')
    last = feed.file("d.t", 2, whole[: int(part * len(whole))])
    assert len(last.read_bytes()) > 200
    real: Callable[..., Listing] = ChangefeedReader.listing

    def listing(self: ChangefeedReader, *arguments: Any) -> Listing:
        found = real(self, *arguments)
        if changes:
            last.write_bytes(whole)
        return found

    monkeypatch.setattr(ChangefeedReader, "listing", listing)
    assert states(replica.once(checkpoint)) == {"d.t": "ok"}
    assert replica.tables == {"d.t": {1: "1"}}


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("order", ["date", "time"])
def test_without_commit_ts_what_is_behind_a_file_that_is_written_while_it_is_read_waits_with_it(
    number: int, order: str, feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cells(key: int, value: int) -> bytes:
        return f'"I","t","d",{key},{value}\r\n'.encode()

    feed.create("d.t", 2)
    flags = {"upstream_uri": f"file://{feed.folder}?protocol=csv", "date_order": order}
    for at, date in enumerate(("2026-03-01", "2026-03-01", "2026-03-02"), 1):
        feed.file("d.t", 2, cells(1, at), date=date, extension="csv")
    real: Callable[..., Listing] = ChangefeedReader.listing

    def listing(self: ChangefeedReader, *arguments: Any) -> Listing:
        found = real(self, *arguments)
        changed = sorted(file for group in found.files.values() for file in group)[number - 1].path
        (feed.folder / changed).write_bytes(cells(1, number) + cells(2, 5))
        return found

    monkeypatch.setattr(ChangefeedReader, "listing", listing)
    assert replica.once(100, **flags).exit_code == 0
    assert replica.tables == {"d.t": {1: str(number - 1)} if number > 1 else {}}
    monkeypatch.undo()
    assert replica.once(200, **flags).exit_code == 0
    assert replica.tables == {"d.t": {1: "3" if order == "date" else str(number), 2: "5"}}


def test_a_file_written_anew_while_it_is_read_is_not_passed_over_where_its_rows_are_due(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`metadata` has gone back and on again while the storage was listed."""
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    feed.puts("d.t", 2, {12: (2, "b")})
    real: Callable[..., Listing] = ChangefeedReader.listing

    def listing(self: ChangefeedReader, *arguments: Any) -> Listing:
        found = real(self, *arguments)
        feed.puts("d.t", 2, {12: (2, "b"), 13: (3, "c")}, number=2)
        return found

    monkeypatch.setattr(ChangefeedReader, "listing", listing)
    result = replica.once(15)
    assert (result.exit_code, states(result)) == (4, {"d.t": "waits"})
    assert "rewritten after it was listed" in result.tables[TableName("d", "t")].error
    monkeypatch.undo()
    assert replica.once(15).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 2: "b", 3: "c"}}


def test_a_damaged_file_below_the_checkpoint_stops_its_table(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    path = feed.puts("d.t", 2, {10: (1, "a"), 12: (2, "b")})
    path.write_bytes(path.read_bytes()[:-20])
    assert states(replica.once(15)) == {"d.t": "stopped"}


def test_a_half_written_schema_file_above_the_checkpoint_stops_nothing(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    for path, half in ((feed.create("d.u", 50), 40), (feed.truncate("d.t", 51), 0)):
        whole = path.read_bytes()
        path.write_bytes(whole[:half])
        assert states(replica.once(20)) == {"d.t": "ok"}
        path.write_bytes(whole)
    feed.puts("d.u", 50, {60: (1, "u")})
    assert replica.once(70).exit_code == 0
    assert replica.tables == {"d.t": {}, "d.u": {1: "u"}}


# Files that cannot be read


def deny(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """The storage does not give files whose path has `word`."""
    for method in ("read", "read_if_there"):
        real = getattr(LocalFiles, method)

        def refuse(self: LocalFiles, file: Any, *rest: int, real: Any = real) -> Any:
            path = file if isinstance(file, str) else file.path
            if word in path:
                raise StorageUnavailable(f"cannot read file {path}: access is denied", path=path)
            return real(self, file, *rest)

        monkeypatch.setattr(LocalFiles, method, refuse)


@pytest.mark.parametrize("word", ["u/2/CDC00000000000000000001", "u/meta/schema"])
@pytest.mark.parametrize("round_bytes", ["1", "1GiB"])
def test_a_file_that_cannot_be_read_stops_its_table_alone(
    word: str, round_bytes: str, feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in ("d.t", "d.u"):
        feed.create(table, 2)
        feed.puts(table, 2, {10: (1, "a")})
        feed.puts(table, 2, {12: (2, "b")})
    deny(monkeypatch, word)
    result = replica.once(15, round_bytes=round_bytes, max_wait="1s")
    assert (result.exit_code, states(result)) == (3, {"d.t": "ok", "d.u": "stopped"})
    assert "access is denied" in result.tables[TableName("d", "u")].error
    monkeypatch.undo()
    assert replica.once(20).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 2: "b"}, "d.u": {1: "a", 2: "b"}}


@pytest.mark.parametrize("statement", ["truncate", "drop", "drop the database"])
def test_a_statement_that_is_listed_and_then_not_there_is_not_passed_over(
    statement: str, feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that comes and goes, an object store that answers from an older state."""
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    assert replica.once(15).exit_code == 0
    if statement == "truncate":
        gone = feed.truncate("d.t", 20)
    elif statement == "drop":
        gone = feed.drop("d.t", 20)
    else:
        gone = feed.database("d", 20, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    read: Callable[..., bytes | None] = LocalFiles.read_if_there
    with monkeypatch.context() as away:
        away.setattr(
            LocalFiles, "read_if_there", lambda self, path, n: None if gone.name in path else read(self, path, n)
        )
        left = replica.once(25)
    assert left.exit_code == 3
    assert [table.error for table in left.tables.values() if gone.name in table.error]
    assert replica.once(30).exit_code == 0
    assert replica.tables == ({"d.t": {}} if statement == "truncate" else {})


def test_a_storage_that_does_not_answer_at_all_stops_no_table(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    feed.checkpoint(15)
    real = ConsumerManager.run_round

    def run_round(self: ConsumerManager, listing: Listing, seconds: float) -> None:
        deny(monkeypatch, "")
        real(self, listing, seconds)

    monkeypatch.setattr(ConsumerManager, "run_round", run_round)
    left = replica.once(max_wait="1s")
    assert (left.exit_code, [table.state for table in left.tables.values()]) == (4, ["waits"])
    monkeypatch.undo()
    assert replica.once(20).exit_code == 0
    assert replica.tables == {"d.t": {1: "a"}}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("where", ["in front of another", "last of an older date", "last of an older version"])
def test_an_empty_file_that_its_writer_has_left_behind_stops_the_table(
    where: str, again: bool, feed: Feed, replica: MemoryReplica
) -> None:
    """It has nothing to tell whether it is due: the window has no other end than the checkpoint."""
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")}, date="2026-01-01")
    if again:
        replica.once(15)
    empty = feed.puts("d.t", 2, {20: (2, "b")}, date="2026-01-01")
    content = empty.read_bytes()
    empty.write_bytes(b"")
    assert states(replica.once(16)) == {"d.t": "ok"}, "it is the newest, and may only be begun"
    if where == "last of an older version":
        feed.statement("d.t", 21, Action.ADD_INDEX, "ALTER TABLE `t` ADD INDEX `v`(`v`)")
    version, date = (21, "2026-01-01") if "version" in where else (2, "2026-01-02" if "date" in where else "2026-01-01")
    feed.puts("d.t", version, {30: (3, "c")}, date=date)
    result = replica.once(35)
    assert (result.exit_code, states(result)) == (3, {"d.t": "stopped"})
    reason = str(replica.seen.stopped[TableName("d", "t")])
    assert "CDC00000000000000000002.json" in reason
    assert "the file is empty" in reason
    empty.write_bytes(content)
    assert replica.once(36).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 2: "b", 3: "c"}}


LOST = {
    "packed, named": ([], 2, [1, 2], "", 1),
    "packed, with no index file": ([], 0, [1], "", 1),
    "packed behind others": ([1], 1, [2], "", 2),
    "packed beside themselves": ([1, 2], 2, [1, 2], "2026-01-02", 0),
    "gone, named": ([], 3, [], "", 1),
    "named, and not there yet, as in a copy": ([1], 3, [], "", 0),
    "gone, and the writer is in another folder": ([], 2, [], "2026-01-02", 1),
    "gone behind others, and the writer is in another folder": ([1], 3, [], "2026-01-02", 2),
    "named, and being written": ([1], 2, [], "", 0),
    "named, and the first": ([], 1, [], "", 0),
    "named by a writer that died, and sent again": ([1], 2, [], "2026-01-02", 0),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(("there", "named", "packed", "later", "missing"), LOST.values(), ids=LOST)
def test_files_that_others_tell_of_are_missing(
    there: list[int],
    named: int,
    packed: list[int],
    later: str,
    missing: int,
    again: bool,
    feed: Feed,
    replica: MemoryReplica,
) -> None:
    feed.create("d.t", 2)
    if again:
        feed.puts("d.t", 2, {5: (9, "z")}, date="2025-12-31")
        replica.once(7)
    files = {n: feed.puts("d.t", 2, {10 * n: (n, "a")}, n, "2026-01-01") for n in range(1, max(named, *packed, 1) + 1)}
    contents = {number: file.read_bytes() for number, file in files.items()}
    for number in packed:
        files[number].with_name(f"{files[number].name}.gz").write_bytes(b"\x1f\x8b")
    for number in files.keys() - there:
        files[number].unlink()
    if named:
        feed.index("d.t", 2, named, "2026-01-01")
    if later:
        feed.puts("d.t", 2, {90: (8, "y")}, date=later)
    result = replica.once(99)
    if not missing:
        assert (result.exit_code, states(result)) == (0, {"d.t": "ok"})
        return
    assert (result.exit_code, states(result)) == (5, {"d.t": "stopped"})
    told = f"file number {missing} is {'not there, and d/t/2/2026-01-01/' if missing in packed else 'missing'}"
    assert told in str(replica.seen.stopped[TableName("d", "t")])
    for number, content in contents.items():
        files[number].write_bytes(content)
    assert replica.once(100).exit_code == 0
    assert dict.fromkeys(files, "a").items() <= replica.tables["d.t"].items()
