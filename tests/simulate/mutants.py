"""``python -m tests.simulate.mutants``: undoes mends of the driver one by one, and sees the simulation fail. Each is
given histories of the theme that plays its kind of trouble. Prints a table: what is undone, the seed that showed it,
after how many histories and seconds, and as what. Exit code 1 if one is not seen."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import consumer.history.target_tables
import consumer.pipeline.table_consumer
import consumer.plan.assembly
import consumer.plan.gaps
import consumer.plan.rewrites
import consumer.plan.timeline
import consumer.verify.eras
from consumer.codec.canal_json.changes import ChangeBuilder
from consumer.errors import Retryable
from consumer.model.files import SchemaFile
from consumer.model.progress import DdlState, OpenFile, Progress, ProgressChange
from consumer.model.steps import ddl_id
from consumer.pipeline.context import RoundContext
from consumer.pipeline.ledger import Ledger
from consumer.pipeline.loads import LoadRunner
from consumer.pipeline.statements import StatementRunner
from consumer.pipeline.table_consumer import TableConsumer
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import Catalog
from consumer.sink.lake.formats import Commit
from consumer.source.following import Follower
from consumer.verify.eras import TableHistory
from consumer.verify.sources import TableStatements
from tests.simulate.events import History, history, in_a_lake
from tests.simulate.play import play
from tests.simulate.server import Server, ServerSink


@dataclass(frozen=True)
class Mutant:
    """`undone`: what the driver, or a target, does no more; `patches` are (owner, name, replacement). `theme`: of the
    histories; `lake`: on a target that commits table by table; `readers`: it shows in what readers give."""

    undone: str
    patches: tuple[tuple[Any, str, Any], ...]
    theme: str
    lake: bool = False
    readers: bool = False

    def history(self, seed: int) -> History:
        drawn = history(seed, self.theme)
        return in_a_lake(drawn) if self.lake else drawn


def _pending(file: Any, progress: Progress) -> bool:
    record = progress.ddls.get(ddl_id(file))
    return _pending_as_it_is(file, progress) and (record is None or record.state is not DdlState.REFUSED)


def _patiently_but_no_end(ledger: Ledger, what: str, call: Callable[[], Any]) -> Any:
    return None if what == "end a load" else _patiently(ledger, what, call)


def _at_once(context: RoundContext, names: Any, what: str, error: Retryable, again: Any) -> None:
    raise error


def _loads_wait(runner: LoadRunner) -> bool:
    return False if runner._context.calls.running else _begin_loads(runner)


def _overtaken_forgotten(runner: StatementRunner, statement: Any, outcome: Any, seconds: float) -> None:
    if outcome.error is not None:
        runner._refused(statement, outcome.error)
    else:
        _follow(runner, statement, outcome, seconds)


def _known_indexes(files: Any, read: Any, listing: Any, progress: Progress) -> Any:
    found = _doubtful(files, read, listing, progress)
    return {folder: file for folder, file in found.items() if progress.folders[folder].index}


def _as_recorded(server: Server, place: int) -> Commit:
    """As the progress has it, which knows no more than a number."""
    return Commit(server.recorded.get(place, 0))


def _any(*_: Any) -> bool:
    return True


def _keys_of_now(history: TableHistory, *given: Any) -> Any:
    (*_, now) = _keys(history, *given)
    return (now,)


def _named_behind_the_first_file(statements: TableStatements, file: SchemaFile) -> bool:
    return file is not statements.table.files[0] and _is_named_anew(statements, file)


def _halves_apart(decoder: ChangeBuilder, *given: Any) -> Any:
    at, old, moved = _old_keys(decoder, *given)
    return at, old, moved[:0]


def _from_where_it_is(follower: Follower, after: int, end: int) -> Any:
    follower._position = end
    return [] if end <= after else list(follower._shares(after, end))


_pending_as_it_is = consumer.history.target_tables.is_pending
_patiently = Ledger.patiently
_begin_loads = LoadRunner.begin
_follow = StatementRunner._follow
_keys = TableHistory._keys
_old_keys = ChangeBuilder._old_keys
_is_named_anew = TableStatements._is_named_anew
_doubtful = consumer.plan.rewrites.doubtful_indexes

MUTANTS = {
    "refusal is done": Mutant(
        "a refused statement is tried again",
        ((consumer.plan.timeline, "is_pending", _pending),),
        theme="stopped tables",
    ),
    "last file": Mutant(
        "a last file that was written again is read again",
        ((OpenFile, "holds", lambda *_: True),),
        theme="files written again",
    ),
    "stale index": Mutant(
        "a folder whose index file is stale is looked at whole",
        (
            (consumer.plan.rewrites, "rewritten_folders", lambda *_: set()),
            (consumer.plan.rewrites, "stale_index_folders", lambda *_: set()),
            (consumer.plan.rewrites, "overcounted_folders", lambda *_: set()),
        ),
        theme="files written again",
    ),
    "lost index": Mutant(
        "an index file that was not there before is asked",
        ((consumer.plan.assembly, "doubtful_indexes", _known_indexes),),
        theme="files written again",
    ),
    "gone index": Mutant(
        "a folder whose index file is gone is looked at whole",
        ((consumer.plan.assembly, "lost_indexes", lambda *_: set()),),
        theme="files written again",
    ),
    "old index": Mutant(
        "files above the number that an index file names are watched one by one",
        ((consumer.plan.assembly, "old_indexes", lambda *_: {}),),
        theme="files written again",
    ),
    "old progress": Mutant(
        "no round without confirmed progress, and none moves back",
        (
            (Ledger, "confirmed", lambda ledger: ledger.progress),
            (ProgressChange, "check", lambda *_: None),
        ),
        theme="outages",
    ),
    "late task": Mutant(
        "the end of a load locks out its writers",
        ((Ledger, "patiently", _patiently_but_no_end),),
        theme="late attempts",
    ),
    "false gap": Mutant("a gap is looked at again", ((Assembly, "new_gaps", lambda *_: set()),), theme="listings"),
    "heal": Mutant(
        "a TRUNCATE that heals passes over old rows only",
        ((Catalog, "is_over", lambda *_: True),),
        theme="stopped tables",
    ),
    "never-split": Mutant(
        "never-split tells repeated rows", ((TableVersionConsumer, "_parts", lambda _: ()),), theme="moved dispatchers"
    ),
    "forgotten folders": Mutant(
        "folders that are gone are forgotten", ((Assembly, "forgotten_folders", lambda *_: set()),), theme="clean-up"
    ),
    "unread file": Mutant(
        "a file that was listed and could not be read is due",
        ((TableConsumer, "_due", lambda *_: {}),),
        theme="stopped tables",
    ),
    "one busy table": Mutant("a busy table waits alone", ((RoundContext, "defer", _at_once),), theme="locks"),
    "in waves": Mutant("loads begin beside statements", ((LoadRunner, "begin", _loads_wait),), theme="locks"),
    "fail-over": Mutant(
        "a write sees that the target lost what it builds on", ((Server, "has", lambda *_: True),), theme="fail-overs"
    ),
    "overtaken": Mutant(
        "a refused DROP records what it overtook",
        ((StatementRunner, "_follow", _overtaken_forgotten),),
        theme="stopped tables",
    ),
    "lake not made good": Mutant(
        "who takes a lake lets the progress follow the tables",
        ((ServerSink, "_ahead", lambda _: {}),),
        theme="anything",
        lake=True,
    ),
    "lake not looked at": Mutant(
        "who takes a lake looks at the tables' newest commits",
        ((ServerSink, "_ahead", lambda _: {}), (Server, "newest_of", _as_recorded), (Server, "follows", _any)),
        theme="anything",
        lake=True,
    ),
    "late commit": Mutant(
        "a table refuses the commit of a late writer",
        ((Server, "follows", _any),),
        theme="anything",
        lake=True,
    ),
    "key of now": Mutant(
        "rows of an era are folded by its own key",
        ((TableHistory, "_keys", _keys_of_now),),
        theme="moved keys",
        readers=True,
    ),
    "first name": Mutant(
        "a table whose first schema file is a RENAME had another name before",
        ((TableStatements, "_is_named_anew", _named_behind_the_first_file),),
        theme="given tables",
        readers=True,
    ),
    "rules of readers": Mutant(
        "who reads asks whether rows kept the rules of their table",
        ((consumer.verify.eras, "broken_rules", lambda *_, **__: ""),),
        theme="masks and filters",
        readers=True,
    ),
    "halves": Mutant(
        "an UPDATE of a key in one line is a DELETE and an INSERT",
        ((ChangeBuilder, "_old_keys", _halves_apart),),
        theme="moved rows",
        readers=True,
    ),
    "heads": Mutant(
        "rows are gone that a file had before it was written again from a later moment on",
        (
            (consumer.pipeline.table_consumer, "rows_gone_up_to", lambda *_: 0),
            (consumer.plan.gaps, "rows_gone_up_to", lambda *_: 0),
        ),
        theme="files written again",
        readers=True,
    ),
    "floor": Mutant(
        "a stream that is started again gives nothing twice",
        ((Follower, "shares", _from_where_it_is),),
        theme="moved dispatchers",
        readers=True,
    ),
}

BEHIND_ANOTHER_GUARD = {"lost index"}
"""Nobody sees it undone: the files of a folder that has no index file are watched one by one."""


def main() -> int:
    flags = argparse.ArgumentParser(prog="python -m tests.simulate.mutants", description=__doc__)
    flags.add_argument("names", nargs="*", metavar="NAME", help="which (all that can be seen)")
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--minutes", type=float, default=10.0, help="of CPU, the most for one")
    given = flags.parse_args()
    print("| undone | theme | seed | histories | CPU s | seen as |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    lines = []
    for name in given.names or [name for name in MUTANTS if name not in BEHIND_ANOTHER_GUARD]:
        lines.append(_line(MUTANTS[name], given.seed, given.minutes * 60))
        print(lines[-1], flush=True)
    return 1 if any(line.endswith("| not seen |") for line in lines) else 0


def seen(mutant: Mutant, seed: int) -> str:
    """What is wrong at the end of the theme's history, without the mend and not with it; "" if nothing is."""
    with ExitStack() as stack:
        for owner, name, replacement in mutant.patches:
            stack.enter_context(patch.object(owner, name, replacement))
        problem = play(mutant.history(seed), mutant.readers).problem
    return "" if problem and play(mutant.history(seed), mutant.readers).problem else problem


def _line(mutant: Mutant, first: int, seconds: float) -> str:
    cpu, seed = time.process_time(), first
    while time.process_time() < cpu + seconds:
        if problem := seen(mutant, seed):
            used = time.process_time() - cpu
            return f"| {mutant.undone} | {mutant.theme} | {seed} | {seed - first + 1} | {used:.0f} | {problem[:120]} |"
        seed += 1
    return f"| {mutant.undone} | {mutant.theme} | - | {seed - first} | {time.process_time() - cpu:.0f} | not seen |"


if __name__ == "__main__":
    sys.exit(main())
