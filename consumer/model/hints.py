"""What hints say. A hint is a text that knows the commands in it, which get the flags of the call where it is printed;
and ways on that several errors have."""

from __future__ import annotations

import enum
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from consumer.errors import Code, DdlRefused
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, quote

_ACCEPT_GAP_IN = "--accept-gap-in"
_PLAIN = re.compile(r"[^`.]+")
_PLAIN_IN_A_RULE = re.compile(r"[0-9A-Za-z_$-]+")
_OF_A_TARGET = ("--config", "--downstream-uri")
"""The flags without which `forget` would look at another target; its --name is its own. For one of several upstreams
and targets it needs all flags that say which they are."""
LETTERS_UNKNOWN = ("--dead-letters", "URI-OF-THE-DEAD-LETTERS")
"""Among the flags of a call that was not told where letters are: `retry` needs that."""
_BEHIND_A_COMMAND = re.compile(r"\A[;,.]?\s+(?=\S)")


class Verb(enum.StrEnum):
    RESYNC = "resync"
    """Loads the table again."""
    RETRY = "retry"
    """Takes its quarantined rows in again."""
    SKIP_DDL = "skip-ddl"
    """Records a statement as done."""
    FORGET = "forget"
    """Takes the progress of a consumer away."""
    ONCE = "once"
    LOAD_EXPORT = "load-export"
    """Brings the table from an export."""


class _Part:
    """A part of a hint that is more than its text. It is put into one by ``+``: an f-string would keep its text
    alone."""

    __slots__ = ()

    def __add__(self, other: str | _Part) -> Hint:
        return Hint(self, other)

    def __radd__(self, other: str) -> Hint:
        return Hint(other, self)


@dataclass(frozen=True, slots=True)
class Command(_Part):
    """A command of this program. `table` is the one that it is about, or its database alone; None where the hint's
    author does not know it (see `about_table`). `accepts`: it goes on without the rows of the table's files that are
    gone. `name` is another consumer's. `folder` has an export, "" where nobody knows which."""

    verb: Verb
    table: TableName | None = None
    version: int = 0
    accepts: bool = False
    name: str = ""
    folder: str = ""

    def __str__(self) -> str:
        return self.text()

    def text(self, options: str = "") -> str:
        """As a shell takes it, with those of `options`, pairs of a flag and its value, that it needs."""
        words = [f"storage-consumer {self.verb}"]
        match self.verb:
            case Verb.FORGET:
                words.append(f"--name {shlex.quote(self.name)} --yes")
            case Verb.LOAD_EXPORT:
                words.append(shlex.quote(self.folder) if self.folder else "DIR")
        if self.table is not None and self.verb is not Verb.ONCE:
            words.append(f"--table {table_argument(self.table)}")
        if self.version:
            words.append(f"--version {self.version}")
        return " ".join(filter(None, [*words, self.option if self.accepts else "", self._needed(options)]))

    @property
    def option(self) -> str:
        """What lets a command go on without them, with the table rule that fits the table alone."""
        return _ACCEPT_GAP_IN if self.table is None else f"{_ACCEPT_GAP_IN} {table_rule(self.table)}"

    def _needed(self, options: str) -> str:
        words = shlex.split(options)
        pairs = list(zip(words[::2], words[1::2], strict=True))
        if self.verb is Verb.FORGET and "--only" not in words:
            pairs = [pair for pair in pairs if pair[0] in _OF_A_TARGET]
        if self.verb is not Verb.RETRY and LETTERS_UNKNOWN in pairs:
            pairs.remove(LETTERS_UNKNOWN)
        return shlex.join(word for pair in pairs for word in pair)


@dataclass(frozen=True, slots=True)
class Instead(_Part):
    """A way on for a table that would stop again if it were loaded again."""

    words: str

    def __str__(self) -> str:
        return self.words


class Hint(str):
    """A hint, of parts; as a text it has the commands without any flags of the call. It comes back from `pickle`, and
    from `loaded` of what `dumped` gave, as it was."""

    parts: tuple[str | Command | Instead, ...]

    def __new__(cls, *parts: str | _Part) -> Self:
        hint = super().__new__(cls, "".join(map(str, parts)))
        hint.parts = tuple(_joined(parts))
        return hint

    @classmethod
    def of(cls, text: str) -> Hint:
        return text if isinstance(text, Hint) else Hint(text)

    def __add__(self, other: str | _Part) -> Hint:
        return Hint(self, other)

    def __radd__(self, other: str) -> Hint:
        return Hint(other, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Hint, self.parts

    @property
    def reloads(self) -> bool:
        """Whether a command that loads the table again may stand behind it: it names none itself, and nothing says
        that the table would stop again."""
        ways = {part.verb for part in self.parts if isinstance(part, Command)} - {Verb.RETRY, Verb.FORGET}
        return not ways and not any(isinstance(part, Instead) for part in self.parts)

    def with_texts(self, change: Callable[[str], str]) -> Hint:
        """The same with other texts around the commands."""
        return Hint(*(change(part) if isinstance(part, str) else part for part in self.parts))

    def with_commands(self, change: Callable[[Command], str | Command]) -> Hint:
        return Hint(*(change(part) if isinstance(part, Command) else part for part in self.parts))

    def dumped(self) -> str:
        """As the progress keeps it."""
        return json.dumps([*map(_dumped, self.parts)], ensure_ascii=False) if self else ""

    @classmethod
    def loaded(cls, text: str) -> Hint:
        """Raises ValueError, TypeError."""
        return Hint(*map(_loaded, json.loads(text or "[]")))


def _joined(parts: Iterable[str | _Part]) -> Iterator[str | Command | Instead]:
    text = ""
    for part in parts:
        for one in part.parts if isinstance(part, Hint) else (part,):
            if isinstance(one, str):
                text += one
            elif isinstance(one, (Command, Instead)):
                yield from filter(None, (text, one))
                text = ""
    if text:
        yield text


def _dumped(part: str | Command | Instead) -> object:
    match part:
        case Command(verb, table, version, accepts, name):
            return {"verb": verb, "table": table, "version": version, "accepts": accepts, "name": name}
        case Instead(words):
            return {"instead": words}
    return part


def _loaded(part: Any) -> str | Command | Instead:
    match part:
        case str(words):
            return words
        case {"instead": str(words)}:
            return Instead(words)
        case {"verb": verb, "table": name, "version": int(version), "accepts": bool(accepts), "name": str(other)}:
            return Command(Verb(verb), None if name is None else TableName(*name), version, accepts, other)
    raise ValueError(f"{part!r} is no part of a hint")


AS_FILES_SHOW = Instead("`inspect --toml` prints the settings as the files show them")
"""Ends a hint about a setting."""
GRANT = Instead("grant the target's user all privileges on storage_consumer and on the replicated databases")
"""Begins a hint about rights."""
ACCEPT_LOSS, RESYNC = Command(Verb.ONCE, accepts=True), Command(Verb.RESYNC)
"""In a hint of those who do not know the table."""
REFUSED_ROW = (
    "mend the value in its file, let the target's column take it, or quarantine such rows with --on-bad-row quarantine;"
    " where the column is not upstream's, load the table again: " + RESYNC
)


def resync_command(table: TableName, accepts: bool = False) -> Command:
    return Command(Verb.RESYNC, table, accepts=accepts)


def load_export_command(folder: str = "", table: TableName | None = None) -> Command:
    return Command(Verb.LOAD_EXPORT, table, folder=folder)


def retry_command(table: TableName) -> Command:
    return Command(Verb.RETRY, table)


def skip_ddl_command(owner: TableName, version: int) -> Command:
    """`owner` is the statement's table, or its database alone."""
    return Command(Verb.SKIP_DDL, owner, version)


def forget_command(name: str) -> Command:
    return Command(Verb.FORGET, name=name)


def accept_command(table: TableName) -> Command:
    return replace(ACCEPT_LOSS, table=table)


def about_table(hint: str, table: TableName) -> Hint:
    """`hint` about `table`, with commands that name it."""
    nameless = (ACCEPT_LOSS, RESYNC)
    return Hint.of(hint).with_commands(lambda one: replace(one, table=table) if one in nameless else one)


def from_an_export(hint: Hint) -> Hint:
    """`hint` about a table that the storage alone cannot make again."""
    return hint.with_commands(lambda one: load_export_command(table=one.table) if one.verb is Verb.RESYNC else one)


def read_anyway_hint(hint: str) -> Hint:
    """`hint` for those who only read: `once` would accept a gap in the target, and they would meet it again."""
    return Hint.of(hint).with_commands(
        lambda one: (
            f"give {one.option} to this command, too (in Spark, the option accept-gap-in)"
            if one.verb is Verb.ONCE
            else one
        )
    )


def in_a_replay(hint: str | Command) -> Hint:
    """`hint` in a replay, which applies only a part of the history: its tables cannot be reloaded from their
    beginning. The same target has the range already, or a part of it."""

    def again(one: Command) -> str | Command:
        accepting = f" with {one.option}" if one.accepts else ""
        match one.verb:
            case Verb.ONCE:
                return f"replay the range again{accepting}"
            case Verb.RESYNC:
                return (
                    f"replay the range again{accepting}, under another --name, into a target that is as upstream was"
                    " when the range begins"
                )
        return one

    return (Hint(hint) if isinstance(hint, Command) else Hint.of(hint)).with_commands(again)


def completed(hint: str | Command, options: str) -> str:
    """`hint` with the call's own flags behind each command, which ends its line, so that it works as it is pasted."""
    return "".join(text for text, _ in pieces(hint, options))


def pieces(hint: str | Command, options: str) -> Iterator[tuple[str, bool]]:
    """The texts that `completed` puts together, and whether each is a command alone."""
    behind = False
    for part in (hint,) if isinstance(hint, Command) else Hint.of(hint).parts:
        is_command = isinstance(part, Command)
        if isinstance(part, Command):
            yield part.text(options), is_command
        else:
            yield _BEHIND_A_COMMAND.sub("\n", str(part)) if behind else str(part), is_command
        behind = is_command


def refused_hint(owner: TableName, version: int) -> Hint:
    """What to do about a statement that the target refuses. A reloaded table would meet it again."""
    return "fix the target and run again, or do by hand what the statement means and then: " + skip_ddl_command(
        owner, version
    )


UNKNOWN_VALUES = "the rows that are there cannot be given the values that upstream made of them"
"""Begins the refusal of a statement that changes a column's type."""


def values_hint(file: SchemaFile) -> Hint:
    """What to do about a statement whose effect on rows no file tells. A reloaded table would meet it again."""
    return (
        "load the table from an export of a moment behind the statement, with `load-export`; or do by hand what it did"
        " upstream, with the values that rows have there, and then: "
    ) + skip_ddl_command(file.name, file.version)


def too_long_hint(file: SchemaFile, table: str) -> Hint:
    """What to do where columns of the target's `table` are too long as utf8mb4, and were not in upstream's latin1."""
    convert = f"ALTER TABLE {table} CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin"
    return (
        f"if the table is latin1 upstream and its texts fit into that, execute {convert} in the target and run again;"
        " else "
    ) + refused_hint(file.name, file.version)


def statement_refused(file: SchemaFile, sentence: str, hint: str = "", code: Code | None = None) -> DdlRefused:
    """The error of the statement in `file`."""
    return DdlRefused(
        sentence,
        hint=hint or refused_hint(file.name, file.version),
        table=str(file.name),
        path=file.path,
        version=file.version,
        code=code,
    )


def table_there_hint(owner: TableName, version: int) -> Hint:
    """What to do about a CREATE TABLE of a name that the target has: a name that was forgotten leaves its tables."""
    return (
        "drop or rename that table and run again, or, where it is upstream's own, record the statement as done: "
        + skip_ddl_command(owner, version)
    )


def table_argument(table: TableName) -> str:
    """`table` as it is written after ``--table``: with backticks where a name holds a dot, quoted for a shell. What a
    terminal would obey is quoted as an escape."""
    return _quoted(table, _PLAIN)


def table_rule(table: TableName) -> str:
    """The table rule that fits `table` alone, as a shell takes it."""
    return _quoted(table, _PLAIN_IN_A_RULE)


def _quoted(table: TableName, plain: re.Pattern[str]) -> str:
    parts = (part for part in (table.database, table.table) if part)
    quoted = (part if plain.fullmatch(part) else quote(part) for part in parts)
    text = ".".join(quoted)
    return shlex.quote(text) if text.isprintable() else "$'" + "".join(map(_in_bash, text)) + "'"


def _in_bash(character: str) -> str:
    if character in "\\'" or not character.isprintable():
        return "".join(f"\\x{byte:02x}" for byte in character.encode())
    return character


WITH_A_COPY = (
    "then copy the table from upstream as of a TSO after that, and go on with it under a new --name with --start-ts"
    " and --tables"
)
FROM_A_NEW_PREFIX = (
    "and have it write to a new prefix; copy the table from upstream as of the TSO that it begins with, and go on there"
    " under a new --name with --start-ts and --tables"
)


NOT_KEPT = "a lost table came back upstream, with rows that TiCDC does not write again, and the target did not keep it"
"""Why a RECOVER TABLE or FLASHBACK TABLE cannot be executed."""


def not_kept_hint(table: TableName, version: int) -> Hint:
    """The way out. Only rows above `version` come from the storage afterwards."""
    return (
        f"copy the table from upstream as of {version} into the target, then: "
        + skip_ddl_command(table, version)
        + "; with action = 'rename' for drop-table and truncate-table in [consumer.ddl] the target keeps such tables"
    )
