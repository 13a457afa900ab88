"""Builds hints. A hint is a text that contains commands as values; they get the flags of the call when it is printed.
Also defines ways out that several errors share."""

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
"""The flags that `forget` takes from the call: they select the target. Its --name is part of the command. With --only
it takes all flags, because that selects one of several consumers."""
DEAD_LETTERS_UNKNOWN = ("--dead-letters", "URI-OF-THE-DEAD-LETTERS")
"""Stands among the flags of a call without --dead-letters: `retry` needs that flag."""
_AFTER_A_COMMAND = re.compile(r"\A[;,.]?\s+(?=\S)")


class Verb(enum.StrEnum):
    RESYNC = "resync"
    """Loads the table again."""
    RETRY = "retry"
    """Applies its quarantined rows again."""
    SKIP_DDL = "skip-ddl"
    """Records a statement as done."""
    FORGET = "forget"
    """Removes the progress of a consumer."""
    ONCE = "once"
    LOAD_EXPORT = "load-export"
    """Loads the table from an export."""


class _Part:
    """A part of a hint that is more than its text. It must be joined by ``+``: an f-string would keep only its text."""

    __slots__ = ()

    def __add__(self, other: str | _Part) -> Hint:
        return Hint(self, other)

    def __radd__(self, other: str) -> Hint:
        return Hint(other, self)


@dataclass(frozen=True, slots=True)
class Command(_Part):
    """A command of this program. `table` is its table, or only a database; None if the hint's author does not know it
    (see `about_table`). `accepts` means that it continues without the rows of the table's missing files. `name` is
    another consumer's. `folder` has an export, "" if it is not known which."""

    verb: Verb
    table: TableName | None = None
    version: int = 0
    accepts: bool = False
    name: str = ""
    folder: str = ""

    def __str__(self) -> str:
        return self.text()

    def text(self, options: str = "") -> str:
        """Returns the command for a shell. `options` are the call's flags, each with its value; those that the command
        needs are appended."""
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
        """The option that lets a command continue without missing files, with the table rule that matches only the
        table."""
        return _ACCEPT_GAP_IN if self.table is None else f"{_ACCEPT_GAP_IN} {table_rule(self.table)}"

    def _needed(self, options: str) -> str:
        words = shlex.split(options)
        pairs = list(zip(words[::2], words[1::2], strict=True))
        if self.verb is Verb.FORGET and "--only" not in words:
            pairs = [pair for pair in pairs if pair[0] in _OF_A_TARGET]
        if self.verb is not Verb.RETRY and DEAD_LETTERS_UNKNOWN in pairs:
            pairs.remove(DEAD_LETTERS_UNKNOWN)
        return shlex.join(word for pair in pairs for word in pair)


@dataclass(frozen=True, slots=True)
class Instead(_Part):
    """A way out for a table that would stop again if it were loaded again."""

    words: str

    def __str__(self) -> str:
        return self.words


class Hint(str):
    """A hint, made of parts. As a text it has the commands without any flags of the call. `pickle`, and `loaded` of the
    text of `dumped`, restore it unchanged."""

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
    def has_commands(self) -> bool:
        return any(isinstance(part, Command) for part in self.parts)

    @property
    def allows_reload(self) -> bool:
        """Whether a command that reloads the table may follow the hint: the hint has no command but `retry` and
        `forget`, and no `Instead`."""
        ways = {part.verb for part in self.parts if isinstance(part, Command)} - {Verb.RETRY, Verb.FORGET}
        return not ways and not any(isinstance(part, Instead) for part in self.parts)

    def with_texts(self, change: Callable[[str], str]) -> Hint:
        """Returns the hint with other texts around the commands."""
        return Hint(*(change(part) if isinstance(part, str) else part for part in self.parts))

    def with_commands(self, change: Callable[[Command], str | Command]) -> Hint:
        return Hint(*(change(part) if isinstance(part, Command) else part for part in self.parts))

    def dumped(self) -> str:
        """Returns the text that the progress keeps."""
        return json.dumps([*map(_dumped, self.parts)], ensure_ascii=False) if self else ""

    @classmethod
    def loaded(cls, text: str) -> Hint:
        """Restores a hint from the text of `dumped`. Raises ValueError, TypeError."""
        return Hint(*map(_loaded, json.loads(text or "[]")))


def _joined(parts: Iterable[str | _Part]) -> Iterator[str | Command | Instead]:
    text = ""
    for part in parts:
        for piece in part.parts if isinstance(part, Hint) else (part,):
            if isinstance(piece, str):
                text += piece
            elif isinstance(piece, (Command, Instead)):
                yield from filter(None, (text, piece))
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
"""For hints whose authors do not know the table."""
REFUSED_ROW = (
    "correct the value in the data file, let the target's column take it, or quarantine such rows with --on-bad-row"
    " quarantine; where the column is not upstream's, load the table again: " + RESYNC
)


def resync_command(table: TableName, accepts: bool = False) -> Command:
    return Command(Verb.RESYNC, table, accepts=accepts)


def load_again(table: TableName | None = None) -> Hint:
    """Returns the way out for a table whose rows are not upstream's: a hint, or the end of one."""
    return "load the table again from the storage: " + (RESYNC if table is None else resync_command(table))


def load_export_command(folder: str = "", table: TableName | None = None) -> Command:
    return Command(Verb.LOAD_EXPORT, table, folder=folder)


def retry_command(table: TableName) -> Command:
    return Command(Verb.RETRY, table)


def skip_ddl_command(owner: TableName, version: int) -> Command:
    """Returns the command for a statement. `owner` is the statement's table, or only its database."""
    return Command(Verb.SKIP_DDL, owner, version)


def forget_command(name: str) -> Command:
    return Command(Verb.FORGET, name=name)


def accept_command(table: TableName) -> Command:
    return replace(ACCEPT_LOSS, table=table)


def about_table(hint: str, table: TableName) -> Hint:
    """Returns `hint` about `table`, with commands that name it."""
    nameless = (ACCEPT_LOSS, RESYNC)
    return Hint.of(hint).with_commands(
        lambda command: replace(command, table=table) if command in nameless else command
    )


def from_an_export(hint: Hint) -> Hint:
    """Returns `hint` about a table that the storage alone cannot rebuild."""
    return hint.with_commands(
        lambda command: load_export_command(table=command.table) if command.verb is Verb.RESYNC else command
    )


def read_anyway_hint(hint: str) -> Hint:
    """Returns `hint` for commands that only read: `once` would accept a gap in the target, and they would meet it
    again."""
    return Hint.of(hint).with_commands(
        lambda command: (
            f"give {command.option} to this command, too (in Spark, the option accept-gap-in)"
            if command.verb is Verb.ONCE
            else command
        )
    )


def in_a_replay(hint: str | Command) -> Hint:
    """Returns `hint` for a replay, which applies only a part of the history: its tables cannot be reloaded from their
    beginning. The same target has the range already, or a part of it."""

    def again(command: Command) -> str | Command:
        accepting = f" with {command.option}" if command.accepts else ""
        match command.verb:
            case Verb.ONCE:
                return f"replay the range again{accepting}"
            case Verb.RESYNC:
                return (
                    f"replay the range again{accepting}, under another --name, into a target that is as upstream was"
                    " when the range begins"
                )
        return command

    return (Hint(hint) if isinstance(hint, Command) else Hint.of(hint)).with_commands(again)


def hint_with_options(hint: str | Command, options: str) -> str:
    """Returns the text of `hint` with the call's flags after each command. A command ends its line, so that it can be
    pasted."""
    return "".join(text for text, _ in hint_parts(hint, options))


def hint_parts(hint: str | Command, options: str) -> Iterator[tuple[str, bool]]:
    """Yields the texts that `hint_with_options` joins, and whether each is a command."""
    after_command = False
    for part in (hint,) if isinstance(hint, Command) else Hint.of(hint).parts:
        is_command = isinstance(part, Command)
        if isinstance(part, Command):
            yield part.text(options), is_command
        else:
            yield _AFTER_A_COMMAND.sub("\n", str(part)) if after_command else str(part), is_command
        after_command = is_command


def refused_hint(owner: TableName, version: int) -> Hint:
    """Returns what to do about a statement that the target refuses. A reloaded table would meet it again."""
    return "fix the target and run again, or do by hand what the statement means and then: " + skip_ddl_command(
        owner, version
    )


UNKNOWN_VALUES = "the existing rows cannot get the values into which upstream converted theirs"
"""Begins the refusal of a statement that changes a column's type."""


def values_hint(file: SchemaFile) -> Hint:
    """Returns what to do about a statement whose effect on rows no file shows. A reloaded table would meet it again."""
    return (
        "load the table from an export of a moment after the statement, with `load-export`; or do by hand what it did"
        " upstream, with the values that rows have there, and then: "
    ) + skip_ddl_command(file.name, file.version)


def too_long_hint(file: SchemaFile, table: str) -> Hint:
    """Returns what to do if columns of the target's `table` are too long as utf8mb4, and were not in upstream's
    latin1."""
    convert = f"ALTER TABLE {table} CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin"
    return (
        f"if the table is latin1 upstream and its texts fit into that, execute {convert} in the target and run again;"
        " else "
    ) + refused_hint(file.name, file.version)


def statement_refused(file: SchemaFile, sentence: str, hint: str = "", code: Code | None = None) -> DdlRefused:
    """Returns the error of the statement in `file`."""
    return DdlRefused(
        sentence,
        hint=hint or refused_hint(file.name, file.version),
        table=str(file.name),
        path=file.path,
        version=file.version,
        code=code,
    )


def table_there_hint(owner: TableName, version: int) -> Hint:
    """Returns what to do about a CREATE TABLE of a name that the target has: `forget` of a consumer name leaves its
    tables."""
    return (
        "drop or rename that table and run again, or, where it is upstream's own, record the statement as done: "
        + skip_ddl_command(owner, version)
    )


def table_argument(table: TableName) -> str:
    """Returns `table` as it is written after ``--table``: with backticks if a name has a dot, quoted for a shell.
    Characters that a terminal would obey are escaped."""
    return _quoted(table, _PLAIN)


def table_rule(table: TableName) -> str:
    """Returns the table rule that matches only `table`, quoted for a shell."""
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
    "then copy the table from upstream as of a TSO after that, and continue with it under a new --name with --start-ts"
    " and --tables"
)
FROM_A_NEW_PREFIX = (
    "and have it write to a new prefix; copy the table from upstream as of the TSO that it begins with, and continue"
    " there under a new --name with --start-ts and --tables"
)


NOT_KEPT = "a lost table came back upstream, with rows that TiCDC does not write again, and the target did not keep it"
"""The reason why a RECOVER TABLE or FLASHBACK TABLE cannot be executed."""


def not_kept_hint(table: TableName, version: int) -> Hint:
    """Returns the way out. Only rows above `version` come from the storage afterwards."""
    return (
        f"copy the table from upstream as of {version} into the target, then: "
        + skip_ddl_command(table, version)
        + "; with action = 'rename' for drop-table and truncate-table in [consumer.ddl] the target keeps such tables"
    )
