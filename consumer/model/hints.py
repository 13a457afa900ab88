"""What hints say: the commands that they name, as a shell takes them, and ways on."""

from __future__ import annotations

import re
import shlex

from consumer.errors import DdlRefused
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, quote

AS_FILES_SHOW = "`inspect --toml` prints the settings as the files show them"
"""Ends a hint about a setting: with the same settings a table that is loaded again would stop again."""
GRANT = "grant the target's user all privileges on storage_consumer and on the replicated databases"
"""Begins a hint about rights: without them a table cannot be loaded again either."""
_ACCEPT_GAP_IN = "--accept-gap-in"
_PLAIN = re.compile(r"[^`.]+")
_PLAIN_IN_A_RULE = re.compile(r"[0-9A-Za-z_$-]+")
_ARGUMENT = r"""(?:\$?'(?:[^']|'"'"')*'|[^\s']+)"""
_COMMAND = re.compile(
    rf"(?P<command>storage-consumer (?:(?:resync|retry|skip-ddl) --table {_ARGUMENT}(?: --version \d+)?"
    rf"(?: {_ACCEPT_GAP_IN} {_ARGUMENT})?|forget --name {_ARGUMENT} --yes|once {_ACCEPT_GAP_IN} {_ARGUMENT}))"
    r"(?P<more>[;,.]?\s+(?=\S))?"
)
ACCEPT_LOSS = f"storage-consumer once {_ACCEPT_GAP_IN}"
"""In a hint of those who do not know the table: `about_table` puts it behind."""
SKIP_DDL = "storage-consumer skip-ddl"
_OF_A_TARGET = ("--config", "--downstream-uri")
"""The flags without which `forget` would look at another target; its --name is its own. For one of several upstreams
and targets it needs all flags that say which they are."""
_RESYNC = re.compile(rf"storage-consumer resync --table {_ARGUMENT}")


def resync_command(table: TableName) -> str:
    """Empties the table and loads it again."""
    return f"storage-consumer resync --table {table_argument(table)}"


def retry_command(table: TableName) -> str:
    """Takes its quarantined rows in again."""
    return f"storage-consumer retry --table {table_argument(table)}"


def skip_ddl_command(owner: TableName, version: int) -> str:
    """Records a statement as done; `owner` is its table, or its database alone."""
    return f"{SKIP_DDL} --table {table_argument(owner)} --version {version}"


def forget_command(name: str) -> str:
    """Takes the progress of the consumer `name` away."""
    return f"storage-consumer forget --name {shlex.quote(name)} --yes"


def accept_command(table: TableName) -> str:
    """Lets it go on without the rows of files that are gone."""
    return f"storage-consumer once {accept_option(table)}"


def accept_option(table: TableName) -> str:
    """What lets a command do that, with the table rule that fits it alone."""
    return f"{_ACCEPT_GAP_IN} {_quoted(table, _PLAIN_IN_A_RULE)}"


def read_anyway_hint(hint: str) -> str:
    """`hint` for those who only read: `once` would accept a gap in the target, and they would meet it again."""
    return re.sub(
        rf"storage-consumer once ({_ACCEPT_GAP_IN} {_ARGUMENT})",
        r"give \1 to this command, too (in Spark, the option accept-gap-in)",
        hint,
    )


def about_table(hint: str, table: TableName) -> str:
    """`hint` about `table`, with commands that name it."""
    return re.sub(rf"{ACCEPT_LOSS}(?= *(?:[;,.)]|$))", lambda _: accept_command(table), hint)


def refused_hint(owner: TableName, version: int) -> str:
    """What to do about a statement that the target refuses. A reloaded table would meet it again."""
    return (
        "fix the target and run again, or do by hand what the statement means and then:"
        f" {skip_ddl_command(owner, version)}"
    )


def too_long_hint(file: SchemaFile, table: str) -> str:
    """What to do where columns of the target's `table` are too long as utf8mb4, and were not in upstream's latin1."""
    convert = f"ALTER TABLE {table} CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin"
    return (
        f"if the table is latin1 upstream and its texts fit into that, execute {convert} in the target and run again;"
        f" else {refused_hint(file.name, file.version)}"
    )


def statement_refused(file: SchemaFile, sentence: str, hint: str = "") -> DdlRefused:
    """The error of the statement in `file`."""
    return DdlRefused(
        sentence,
        hint=hint or refused_hint(file.name, file.version),
        table=str(file.name),
        path=file.path,
        version=file.version,
    )


def table_there_hint(owner: TableName, version: int) -> str:
    """What to do about a CREATE TABLE of a name that the target has: a name that was forgotten leaves its tables."""
    return (
        "drop or rename that table and run again, or, where it is upstream's own, record the statement as done:"
        f" {skip_ddl_command(owner, version)}"
    )


def table_argument(table: TableName) -> str:
    """`table` as it is written after ``--table``: with backticks where a name holds a dot, quoted for a shell. What a
    terminal would obey is quoted as an escape."""
    return _quoted(table, _PLAIN)


def _quoted(table: TableName, plain: re.Pattern[str]) -> str:
    parts = (part for part in (table.database, table.table) if part)
    quoted = (part if plain.fullmatch(part) else quote(part) for part in parts)
    text = ".".join(quoted)
    return shlex.quote(text) if text.isprintable() else "$'" + "".join(map(_in_bash, text)) + "'"


def _in_bash(character: str) -> str:
    if character in "\\'" or not character.isprintable():
        return "".join(f"\\x{byte:02x}" for byte in character.encode())
    return character


def in_a_replay(hint: str) -> str:
    """`hint` in a replay, which applies only a part of the history: its tables cannot be reloaded from their
    beginning."""
    hint = hint.replace(ACCEPT_LOSS, f"replay the range again with {_ACCEPT_GAP_IN}")
    return _RESYNC.sub("replay the range again, into an empty target under another --name", hint)


def completed(hint: str, options: str) -> str:
    """`hint` with the call's own flags behind each command, which ends its line, so that it works as it is pasted."""

    def whole(found: re.Match[str]) -> str:
        command = f"{found['command']} {_options_for(found['command'], options)}".rstrip()
        return command + ("\n" if found["more"] else "")

    return _COMMAND.sub(whole, hint)


def _options_for(command: str, options: str) -> str:
    """Those of `options`, pairs of a flag and its value, that `command` needs."""
    words = shlex.split(options)
    if not command.startswith("storage-consumer forget") or "--only" in words:
        return options
    return shlex.join(
        word for pair in zip(words[::2], words[1::2], strict=True) if pair[0] in _OF_A_TARGET for word in pair
    )


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


def not_kept_hint(table: TableName, version: int) -> str:
    """The way out. Only rows above `version` come from the storage afterwards."""
    return (
        f"copy the table from upstream as of {version} into the target, then: {skip_ddl_command(table, version)};"
        " with action = 'rename' for drop-table and truncate-table in [consumer.ddl] the target"
        " keeps such tables"
    )
