"""Which of the upstream's tables the target has, found from the statements that were executed there.

Under table rules that change, or with statements that a policy or a stop has left out, the target's tables can have
other names than the upstream's, and tables can exist that the upstream no longer has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from consumer.errors import ConsumerError, DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.ddl_policy import kind_of
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import DdlState, Progress, State, TableProgress
from consumer.model.steps import ddl_id
from consumer.plan.lives import Life, Lives
from consumer.plan.statement import action_of

PASSED_OVER = "its table was gone before the table rules took it"
"""Recorded with a statement that was not executed, because the upstream's table no longer existed."""

NOT_MADE = "the table rules left its table out then, and another one has a name of it since"
"""Recorded with a statement that was not executed, because the target can no longer have the table under that name."""

OVERTAKEN = "overtaken by "
"""The beginning of the reason that is recorded with a statement that was not executed because a later one drops its
table."""

LEFT_OVER = "it is gone upstream, and the table rules left out its end"

_NOT_EXECUTED = (PASSED_OVER, NOT_MADE, OVERTAKEN)


def kept_by_policy(name: TableName) -> DdlRefused:
    """The error of a table that no longer exists upstream, whose DROP was not followed, and that is still in the
    target."""
    kind = kind_of(Action.DROP_TABLE)
    return DdlRefused(
        f"{LEFT_OVER}: the policy for {kind} keeps it in the target",
        hint=f"set evolve for {kind} in [consumer.ddl] and run again: the table is dropped in the target then; with"
        " ignore it stays",
        table=str(name),
    )


def is_kept_by_policy(name: TableName, place: TableProgress) -> bool:
    """Whether the table stopped for that."""
    return place.state is State.STOPPED and place.reason == kept_by_policy(name).sentence()


def left_over(progress: Progress) -> dict[TableName, ConsumerError]:
    """The tables that stopped for that."""
    return {name: kept_by_policy(name) for name, place in progress.tables.items() if is_kept_by_policy(name, place)}


@dataclass(frozen=True, slots=True)
class Standing:
    """A table that the target has under some name, which the statement of version `since` gave it there. `sure`: a
    statement about it was executed there; else it is older than the changefeed and assumed to exist."""

    life: Life
    since: int
    sure: bool


class Standings:
    """All lives in upstream order, those `alive` upstream, and what is `there` in the target, by its names there."""

    def __init__(self, files: Iterable[SchemaFile], origins: Mapping[str, TableName], progress: Progress) -> None:
        self.lives: list[Life] = []
        self.there: dict[TableName, Standing] = {}
        self._names: dict[int, TableName] = {}
        self._known: set[int] = set()
        upstream = Lives()
        for file in files:
            life = upstream.follow(file, origins.get(file.path))
            if life is not None and id(life) not in self._known:
                self._meet(life)
            if was_executed(file, progress):
                self._executed(file, life)
        self.alive = upstream.alive

    def name(self, life: Life) -> TableName | None:
        """The name of the table in the target, None if it does not exist there."""
        return self._names.get(id(life))

    def take_away(self, name: TableName) -> None:
        """The target's table no longer exists."""
        if (standing := self.there.pop(name, None)) is not None:
            del self._names[id(standing.life)]

    def _meet(self, life: Life) -> None:
        self._known.add(id(life))
        self.lives.append(life)
        if life.birth is None and life.names and life.names[0] not in self.there:
            self._put(life.names[0], Standing(life, 0, sure=False))

    def _executed(self, file: SchemaFile, life: Life | None) -> None:
        action = action_of(file)
        if action == Action.DROP_SCHEMA:
            for name in [name for name in self.there if name.database == file.database]:
                self.take_away(name)
        elif action in DROP_ACTIONS:
            self.take_away(file.name)
        elif life is not None and action in CREATE_ACTIONS | RENAME_ACTIONS:
            self._put(file.name, Standing(life, file.version, sure=True))
        elif life is not None and (own := self.name(life)) is not None:
            self.there[own] = replace(self.there[own], sure=True)

    def _put(self, name: TableName, standing: Standing) -> None:
        if (former := self.name(standing.life)) is not None:
            self.take_away(former)
        self.take_away(name)
        self.there[name] = standing
        self._names[id(standing.life)] = name


def was_executed(file: SchemaFile, progress: Progress) -> bool:
    """Whether a statement ran, or somebody has done by hand what it means. One that broke off may have run."""
    if not file.query:
        return False
    record = progress.ddls.get(ddl_id(file))
    if record is None:
        return file.version <= progress.start_of(file.name)
    if record.state is DdlState.SKIPPED:
        return not record.reason.startswith(_NOT_EXECUTED)
    return record.state is not DdlState.REFUSED


def is_settled(file: SchemaFile, progress: Progress) -> bool:
    """Whether a statement needs no more work."""
    record = progress.ddls.get(ddl_id(file))
    if record is None:
        return not file.query or file.version <= progress.start_of(file.name)
    return record.state in (DdlState.DONE, DdlState.SKIPPED)


def is_left_undone(file: SchemaFile, progress: Progress) -> bool:
    """Whether the statement will never be executed, because its table must not be created under that name."""
    record = progress.ddls.get(ddl_id(file))
    return record is not None and record.reason in (PASSED_OVER, NOT_MADE)
