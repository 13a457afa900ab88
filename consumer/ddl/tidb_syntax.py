"""Removes from a statement what only TiDB understands, for MySQL and MariaDB; and CHECK constraints, for all
targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from consumer.ddl.definitions import Index, Member, ParsedStatement, find_words
from consumer.ddl.references import created_object
from consumer.ddl.session_times import columns_reading, generated_at
from consumer.ddl.tokens import Edits, TokenKind, Tokens, closing, starts, tokenize, top_level
from consumer.errors import DdlRefused
from consumer.model.names import quote, same_name, same_names
from consumer.model.table_definition import PARTIAL, SHARD
from consumer.model.texts import shortened

_OPTIONS = frozenset(
    {
        "AUTO_ID_CACHE",
        "AUTO_RANDOM_BASE",
        "SHARD_ROW_ID_BITS",
        "PRE_SPLIT_REGIONS",
        "TTL_ENABLE",
        "TTL_JOB_INTERVAL",
        "STATS_BUCKETS",
        "STATS_TOPN",
        "STATS_SAMPLE_RATE",
        "STATS_COL_CHOICE",
        "STATS_COL_LIST",
        "SOFTDELETE_JOB_ENABLE",
        "SOFTDELETE_JOB_INTERVAL",
        "ACTIVE_ACTIVE",
        "AFFINITY",
    }
)
"""Table options of the form ``NAME [=] value``."""

_STORAGE_OPTIONS = frozenset(
    {
        "AUTOEXTEND_SIZE",
        "COMPRESSION",
        "ENCRYPTION",
        "ENGINE_ATTRIBUTE",
        "IETF_QUOTES",
        "KEY_BLOCK_SIZE",
        "NODEGROUP",
        "PAGE_CHECKSUM",
        "PAGE_COMPRESSED",
        "PAGE_COMPRESSION_LEVEL",
        "ROW_FORMAT",
        "SECONDARY_ENGINE",
        "SECONDARY_ENGINE_ATTRIBUTE",
        "SEQUENCE",
        "TABLESPACE",
        "TRANSACTIONAL",
    }
)
"""``NAME = value`` options of how a server stores tables. TiDB takes them with any value and ignores them. Another
server refuses those that it does not know, or that do not fit its own engine."""

_BEGIN_OPTIONS = (
    _OPTIONS
    | _STORAGE_OPTIONS
    | {"DATA", "INDEX", "PLACEMENT", "TTL", "AUTO_RANDOM", "CLUSTERED", "NONCLUSTERED", "LINEAR", "UPDATE"}
    | {"SOFTDELETE", "ADD_COLUMNAR_REPLICA_ON_DEMAND"}
)
"""The first words of everything that `remove_tidb_options` removes."""

_SPECIFICATIONS = (
    ("SET", "TIFLASH"),
    ("SET", "HYPO"),
    ("REMOVE", "TTL"),
    ("PLACEMENT", "POLICY"),
    ("SPLIT",),
    ("CACHE",),
    ("NOCACHE",),
    ("COMPACT",),
    ("ATTRIBUTES",),
    ("STATS_OPTIONS",),
    ("ADD", "STATS_EXTENDED"),
    ("DROP", "STATS_EXTENDED"),
)
"""ALTER TABLE specifications that do not affect columns, rows or keys."""

_NOW = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"})
"""What every server takes as a default without parentheses."""

_LONG = re.compile("[\U00010000-\U0010ffff]")
"""A character of 4 bytes."""

_INDEX_KINDS = ("VECTOR", "COLUMNAR", "HYBRID", SHARD)
"""Kinds of indexes that no other server has."""


def remove_comments(statement: ParsedStatement, edits: Edits) -> None:
    """Removes ``/*T![feature] .. */``, each with one blank before it."""
    for token in statement.comments:
        if token.text.startswith("/*T!"):
            blank = statement.text[token.start - 1 : token.start].isspace()
            edits.replace(token.start - blank, token.end, "" if blank else " ")


def remove_tidb_options(statement: ParsedStatement, edits: Edits) -> None:
    """Removes TiDB's options and attributes that stand without a comment around them."""
    if statement.kind == "CREATE VIEW" or not statement.has_word(*_BEGIN_OPTIONS):
        return
    tokens = statement.tokens
    for at, token in enumerate(tokens):
        if (width := _option_width(tokens, at)) > 0:
            last = tokens[at + width - 1]
            edits.remove(_with_blank(statement.text, token.start), last.end)


def _option_width(tokens: Tokens, at: int) -> int:
    """Returns how many tokens the option that begins at `at` has; 0 if none begins there."""
    word = tokens[at].word
    if word not in _BEGIN_OPTIONS:
        return 0
    after = at + 1 + starts(tokens, "=", at=at + 1)
    if word == "PRE_SPLIT_REGIONS" and starts(tokens, "(", at=after):
        return closing(tokens, after) + 1 - at
    if word in _OPTIONS or (word in _STORAGE_OPTIONS and after == at + 2):
        return after + 1 - at
    if word == "SOFTDELETE":  # = RETENTION 7 DAY, RETENTION = 7 DAY, = 'OFF'
        value = after + 1 + starts(tokens, "=", at=after + 1)
        return value + 2 - at if starts(tokens, "RETENTION", at=after) else after + 1 - at
    if word in ("DATA", "INDEX") and starts(tokens, "DIRECTORY", "=", at=at + 1):
        return 4
    if word == "PLACEMENT" and starts(tokens, "POLICY", at=at + 1):
        return 4 if starts(tokens, "=", at=at + 2) else 3
    if word == "TTL" and starts(tokens, "INTERVAL", at=after + 2):
        return after + 5 - at
    if word == "AUTO_RANDOM":
        return closing(tokens, at + 1) + 1 - at if starts(tokens, "(", at=at + 1) else 1
    if word in ("CLUSTERED", "NONCLUSTERED", "ADD_COLUMNAR_REPLICA_ON_DEMAND"):
        return 1
    if word == "LINEAR" and (starts(tokens, "HASH", at=at + 1) or starts(tokens, "KEY", at=at + 1)):
        return 1  # TiDB takes the word and ignores it; elsewhere partitions would hold other rows
    if word == "UPDATE" and starts(tokens, "INDEXES", "(", at=at + 1):
        return closing(tokens, at + 2) + 1 - at
    return 0


def remove_hints(statement: ParsedStatement, edits: Edits) -> list[Member]:
    """Removes ``ALGORITHM = x`` and ``LOCK = x``, which are hints for TiDB's execution. Returns the ALTER
    specifications that consist of nothing else."""
    if statement.kind in ("CREATE INDEX", "DROP INDEX"):
        for at, token in enumerate(statement.tokens):
            if token.word in ("ALGORITHM", "LOCK"):
                value = at + 1 + starts(statement.tokens, "=", at=at + 1)
                edits.remove(_with_blank(statement.text, token.start), statement.tokens[value].end)
    return [m for m in statement.members if m.tokens and m.tokens[0].word in ("ALGORITHM", "LOCK")]


def definer(statement: ParsedStatement, edits: Edits) -> Iterator[str]:
    """Upstream's user who created a view may not exist, or be another one, so the view becomes the session user's, who
    needs no right for that. Yields a note."""
    tokens = statement.tokens[: created_object(statement.tokens)] if statement.kind == "CREATE VIEW" else ()
    at = next((at for at, token in enumerate(tokens) if token.word == "DEFINER"), len(tokens))
    user = at + 1 + starts(tokens, "=", at=at + 1)
    end = next((at for at in range(user, len(tokens)) if tokens[at].word in ("SQL", "VIEW")), len(tokens))
    if user < end and tokens[user].word != "CURRENT_USER":
        edits.replace(tokens[user].start, tokens[end - 1].end, "CURRENT_USER")
        yield "the view's definer is the target's user, not upstream's"


def empty_specifications(statement: ParsedStatement) -> list[Member]:
    """Returns the specifications of an ALTER TABLE that hold nothing but TiDB's options."""
    if not statement.is_alter:
        return []
    return [member for member in statement.members if _is_empty(member)]


def _is_empty(member: Member) -> bool:
    tokens = member.tokens
    if any(starts(tokens, *words) for words in _SPECIFICATIONS):
        return True
    at = 0
    while at < len(tokens) and (width := _option_width(tokens, at)) > 0:
        at += width
    return at >= len(tokens)


def sequence_defaults(statement: ParsedStatement, edits: Edits) -> Iterator[str]:
    """Removes ``[SET] DEFAULT NEXTVAL(..)``: TiCDC does not replicate sequences, and every row has its value. Yields
    notes."""
    for column in statement.columns if statement.has_word("NEXTVAL", "NEXT") else ():
        tokens = column.tokens
        for at, token in enumerate(tokens):
            after = at + 1 + starts(tokens, "(", at=at + 1)
            if token.word != "DEFAULT" or not _is_sequence(tokens, after):
                continue
            opening = after + 1 if after == at + 1 else at + 1
            last = closing(tokens, opening) if starts(tokens, "(", at=opening) else _name_end(tokens, after + 3)
            edits.remove(_with_blank(statement.text, token.start), tokens[min(last, len(tokens) - 1)].end)
            yield f"column {column.name} has no default, because sequences are not replicated"
    for member in statement.members if statement.is_alter and statement.has_word("NEXTVAL", "NEXT") else ():
        tokens = member.tokens
        set_at = find_words(tokens, "SET", "DEFAULT") if starts(tokens, "ALTER") else None
        if set_at is not None and _is_sequence(tokens, set_at + 2 + starts(tokens, "(", at=set_at + 2)):
            edits.replace(tokens[set_at].start, tokens[-1].end, "DROP DEFAULT")
            yield f"column {tokens[set_at - 1].name} has no default, because sequences are not replicated"


@dataclass(frozen=True, slots=True)
class ComputedClause:
    """An expression by which a server computes a default, or a generated column. `whole` is all of the clause."""

    column: str
    expression: Tokens
    whole: Tokens
    generated: bool = False
    added: bool = False
    """Whether an ALTER TABLE adds the column: existing rows need its values."""


def computed_clauses(statement: ParsedStatement) -> Iterator[ComputedClause]:
    """Yields the clauses of the statement, without plain literals and the current time."""
    added = same_names(statement.added_columns())
    for column in statement.columns:
        tokens, new = column.tokens, same_name(column.name) in added
        if (span := generated_at(column)) is not None:
            start, end = span
            opening = next(at for at in range(start, end) if tokens[at].text == "(")
            yield ComputedClause(column.name, tokens[opening + 1 : end], tokens[start : end + 1], True, new)
        elif (at := column.find("DEFAULT")) is not None and (end := _end_of_call(tokens, at + 1)):
            yield ComputedClause(column.name, tokens[at + 1 : end], tokens[at:end], added=new)
    for member in statement.members if statement.is_alter else ():
        set_at = find_words(member.tokens, "SET", "DEFAULT") if starts(member.tokens, "ALTER") else None
        if set_at is not None and (end := _end_of_call(member.tokens, set_at + 2)):
            name = member.tokens[set_at - 1].name
            yield ComputedClause(name, member.tokens[set_at + 2 : end], member.tokens[set_at:end])


def _end_of_call(tokens: Tokens, at: int) -> int:
    """Returns the position after ``(..)`` or ``F(..)`` at `at`, 0 if there is neither, or if it is the current time."""
    opening = at + (at < len(tokens) and bool(tokens[at].word))
    if not starts(tokens, "(", at=opening) or (opening > at and tokens[at].word in _NOW):
        return 0
    return closing(tokens, opening) + 1


def leave_out_computed(
    statement: ParsedStatement,
    edits: Edits,
    refused: Callable[[ComputedClause], bool],
    filled: bool = True,
    nulls: Collection[str] = (),
) -> Iterator[str]:
    """Leaves out what the server has `refused` to compute.

    Rows carry all values except those of VIRTUAL columns, which become NULL, as `nulls` are since an earlier statement;
    so does what reads them. Nothing is left out if rows of a table that is `filled` would lack the values of a new
    column. Yields notes.
    """
    columns = {column.name: column for column in statement.columns}
    clauses = {clause.column: clause for clause in computed_clauses(statement)}
    virtual = {name for name, clause in clauses.items() if clause.generated and not columns[name].has("STORED")}
    omitted = {name for name, clause in clauses.items() if refused(clause)}
    null_columns = (omitted & virtual).union(same_names(nulls) - same_names(columns))
    omitted |= columns_reading(
        null_columns, {name: clause.expression for name, clause in clauses.items() if clause.generated}
    )
    for name in clauses:
        clause, column = clauses[name], columns.get(name)
        if name not in omitted or (clause.added and filled and name not in virtual):
            continue
        first, last = clause.expression[0].start, clause.expression[-1].end
        shown = shortened(statement.text[first:last])
        if name in virtual and column is not None:
            edits.replace(first, last, "NULL")
            for at in (at for at in top_level(column.tokens) if starts(column.tokens, "NOT", "NULL", at=at)):
                edits.remove(column.tokens[at - 1].end, column.tokens[at + 1].end)
            yield f"column {name} is NULL here: the server does not compute {shown}, and the rows do not carry it"
        elif clause.generated and column is not None:
            stored = column.find("STORED")
            assert stored is not None
            edits.remove(_with_blank(statement.text, clause.whole[0].start), column.tokens[stored].end)
            yield f"column {name} is generated upstream and a plain one here: the server does not compute {shown}"
        else:
            sets = clause.whole[0].word == "SET"
            start = clause.whole[0].start if sets else _with_blank(statement.text, clause.whole[0].start)
            edits.replace(start, last, "DROP DEFAULT" if sets else "")
            yield f"column {name} has no default here: the server does not compute {shown}"


def has_wide_characters(clause: ComputedClause) -> bool:
    """Returns whether the expression has characters of 4 bytes: servers keep expressions without them, and would
    compute others."""
    return any(_LONG.search(token.text) for token in clause.expression)


def _is_sequence(tokens: Tokens, at: int) -> bool:
    return starts(tokens, "NEXTVAL", at=at) or starts(tokens, "NEXT", "VALUE", "FOR", at=at)


def _name_end(tokens: Tokens, at: int) -> int:
    return at + 2 if starts(tokens, ".", at=at + 1) else at


def vector_columns(statement: ParsedStatement, edits: Edits) -> Iterator[str]:
    """Turns VECTOR into LONGTEXT: rows carry vectors as text, and the servers' own VECTOR types do not take that.
    Yields notes."""
    for column in statement.columns if statement.has_word("VECTOR") else ():
        if not starts(column.tokens, "VECTOR", at=1):
            continue
        last = 1
        if starts(column.tokens, "<", at=2):
            last = 4
        if starts(column.tokens, "(", at=last + 1):
            last = closing(column.tokens, last + 1)
        edits.replace(column.tokens[1].start, column.tokens[last].end, "LONGTEXT")
        yield f"column {column.name} is a VECTOR upstream and stored as LONGTEXT"


def partial_indexes(statement: ParsedStatement) -> Iterator[tuple[Index, str]]:
    """Yields indexes with a WHERE, and why they are left out. That is so for a TiDB target, too: it may be an older
    one, and for an existing unique index nothing shows that rows may be equal in it."""
    for index in statement.indexes:
        if index.kind == PARTIAL:
            yield index, f"{index.label} is left out: no target gets indexes with a WHERE"


def unknown_indexes(statement: ParsedStatement) -> Iterator[tuple[Index, str]]:
    """Yields indexes of kinds that only TiDB has, and why they are left out."""
    for index in statement.indexes:
        if is_tidb_only(index.kind):
            yield index, f"{index.label} is left out: {index.kind} indexes are TiDB's own"


def is_tidb_only(kind: str) -> bool:
    """Returns whether no other server has such an index."""
    return kind in _INDEX_KINDS


def global_indexes(statement: ParsedStatement, edits: Edits) -> Iterator[str]:
    """Turns a GLOBAL unique index of a partitioned table into a plain one: upstream keeps it unique, and the servers
    only take unique indexes that contain the partitioning columns. Yields notes."""
    for index in statement.indexes:
        if index.kind == "PRIMARY" and is_global(statement, index.name_at):
            raise DdlRefused(
                "its primary key is GLOBAL upstream, and lacks columns of the partitions, which this server's"
                " partitioned tables need in each key"
            )
        if index.kind != "UNIQUE" or not is_global(statement, index.name_at):
            continue
        at = next(p for p, token in enumerate(index.tokens) if token.word == "UNIQUE")
        has_noun = starts(index.tokens, "INDEX", at=at + 1) or starts(index.tokens, "KEY", at=at + 1)
        end = index.tokens[at + 1].end if has_noun else index.tokens[at].end
        # A name that stands before its kind would be lost with it.
        name = f" {quote(index.name)}" if index.name and starts(index.tokens, "CONSTRAINT") else ""
        edits.replace(index.tokens[0].start, end, f"INDEX{name}")
        yield f"{index.label} is not unique here, because it is GLOBAL upstream"
        for token in index.tokens:
            if token.word == "GLOBAL":
                edits.remove(_with_blank(statement.text, token.start), token.end)


def is_global(statement: ParsedStatement, start: int, end: int | None = None) -> bool:
    """Returns whether GLOBAL stands between `start` and `end` (None: the end of the part), also in a comment of
    TiDB's."""
    if end is None:
        end = next((m.end for m in statement.members if m.start <= start <= m.end), len(statement.text))
    inside = [token for token in statement.tokens if start <= token.start < end]
    for comment in statement.comments:
        if start <= comment.start < end:
            inside += tokenize(comment.text.removeprefix("/*T!").removesuffix("*/"))
    return any(token.word == "GLOBAL" for token in inside)


def engines(statement: ParsedStatement, edits: Edits) -> Iterator[str]:
    """TiDB takes any ENGINE and stores all tables alike, with transactions, as only InnoDB does here. Yields notes."""
    for at, token in enumerate(statement.options):
        value = at + 1 + starts(statement.options, "=", at=at + 1)
        if token.word == "ENGINE" and value < len(statement.options):
            engine = statement.options[value]
            if engine.name.strip("'").upper() != "INNODB":
                edits.replace(engine.start, engine.end, "InnoDB")
                yield f"ENGINE {engine.name} became InnoDB, which has TiDB's transactions"


def full_text_parsers(statement: ParsedStatement, edits: Edits) -> None:
    """Removes ``WITH PARSER x`` of a FULLTEXT index: parsers are plugins, and TiDB has its own."""
    tokens = statement.tokens
    for at in range(len(tokens) - 2) if statement.has_word("PARSER") else ():
        if starts(tokens, "WITH", "PARSER", at=at):
            edits.remove(_with_blank(statement.text, tokens[at].start), tokens[at + 2].end)


def plain_comments(statement: ParsedStatement, edits: Edits) -> Iterator[str]:
    """Servers keep comments in characters of up to 3 bytes, and would silently turn others into ?. Yields notes."""
    tokens = statement.tokens if _LONG.search(statement.text) else ()
    for at, token in enumerate(tokens):
        value = at + 1 + starts(tokens, "=", at=at + 1)
        if token.word != "COMMENT" or value >= len(tokens) or tokens[value].kind is not TokenKind.STRING:
            continue
        comment = tokens[value]
        if (plain := _LONG.sub("?", comment.text)) != comment.text:
            edits.replace(comment.start, comment.end, plain)
            yield f"the comment {comment.text} became {plain}, because the server keeps no characters of 4 bytes there"


def _with_blank(text: str, start: int) -> int:
    return start - (start > 0 and text[start - 1] == " ")


_WHY = "is left out: upstream may not enforce it, and its later changes are not in the storage"


def leave_out_checks(statement: ParsedStatement, edits: Edits) -> Iterator[tuple[Member | None, str]]:
    """Leaves out checks, and yields a note for each, with the member that the caller removes if the check is a member
    of its own.

    TiDB writes ENFORCED whether or not it enforces checks (`tidb_enable_check_constraint` is off by default), and TiCDC
    passes on no statement that later adds, drops or alters one. So a check here could only refuse rows that upstream
    took.
    """
    if not statement.has_word("CHECK", "CONSTRAINT"):
        return
    for column in statement.columns:
        for check in top_level(column.tokens):
            if starts(column.tokens, "CHECK", "(", at=check):
                first, last = _constraint_start(column.tokens, check), _end(column.tokens, check)
                edits.remove(column.tokens[first - 1].end, column.tokens[last].end)
                yield None, f"a check of column {column.name} {_WHY}"
    for member in statement.members:
        if (label := _own_check(member.tokens)) is not None:
            yield member, f"{label} {_WHY}"


def _own_check(tokens: Tokens) -> str | None:
    """Returns the description of the check that a member adds, drops or alters; None if it is about something else."""
    for verb in ("DROP", "ALTER"):
        if any(starts(tokens, verb, noun) for noun in ("CHECK", "CONSTRAINT")):
            return f"{verb} CHECK {tokens[2].name}"
    at = int(starts(tokens, "ADD"))
    name = ""
    if starts(tokens, "CONSTRAINT", at=at):
        has_name = not starts(tokens, "CHECK", "(", at=at + 1)
        name = tokens[at + 1].name if has_name and at + 1 < len(tokens) else ""
        at += 1 + has_name
    if not starts(tokens, "CHECK", "(", at=at):
        return None
    return f"check {name}" if name else "a check"


def _end(tokens: Tokens, check: int) -> int:
    """Returns the last token of ``CHECK (..) [[NOT] ENFORCED]``."""
    end = closing(tokens, check + 1)
    return end + starts(tokens, "ENFORCED", at=end + 1) + 2 * starts(tokens, "NOT", "ENFORCED", at=end + 1)


def _constraint_start(tokens: Tokens, check: int) -> int:
    """Returns where ``[CONSTRAINT [name]] CHECK`` begins."""
    if tokens[check - 2].word == "CONSTRAINT" and tokens[check - 1].kind is TokenKind.QUOTED:
        return check - 2
    return check - 1 if tokens[check - 1].word == "CONSTRAINT" else check
