"""CHECK constraints are left out of every target.

TiDB writes ENFORCED whether or not it enforces them (`tidb_enable_check_constraint` is off by default), and TiCDC
passes on no statement that adds, drops or alters one later. So a check here could only refuse rows that upstream took.
"""

from __future__ import annotations

from collections.abc import Iterator

from consumer.ddl.definitions import Member, ParsedStatement
from consumer.ddl.tokens import Edits, TokenKind, Tokens, closing, starts, top_level
from consumer.model.names import same_names

_WHY = "is left out: upstream may not enforce it, and its later changes are not in the storage"


def leave_out_checks(statement: ParsedStatement, edits: Edits) -> Iterator[tuple[Member | None, str]]:
    """A note for each check, with the member that the caller removes where the check is one of its own."""
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


def check_names(statement: ParsedStatement) -> frozenset[str]:
    """The names that a CREATE TABLE's checks have, in lower case: TiDB gives them to no index."""
    lists = [member.tokens for member in statement.members if any(token.word == "CHECK" for token in member.tokens)]
    named = (
        tokens[at + 1]
        for tokens in lists
        for at in top_level(tokens)
        if starts(tokens, "CONSTRAINT", at=at) and starts(tokens, "CHECK", "(", at=at + 2)
    )
    return same_names(token.name for token in named)


def _own_check(tokens: Tokens) -> str | None:
    """What a person calls the check that a member adds, drops or alters; None where it is about something else."""
    for verb in ("DROP", "ALTER"):
        if any(starts(tokens, verb, noun) for noun in ("CHECK", "CONSTRAINT")):
            return f"{verb} CHECK {tokens[2].name}"
    at = int(starts(tokens, "ADD"))
    name = ""
    if starts(tokens, "CONSTRAINT", at=at):
        named = not starts(tokens, "CHECK", "(", at=at + 1)
        name = tokens[at + 1].name if named and at + 1 < len(tokens) else ""
        at += 1 + named
    if not starts(tokens, "CHECK", "(", at=at):
        return None
    return f"check {name}" if name else "a check"


def _end(tokens: Tokens, check: int) -> int:
    """The last token of ``CHECK (..) [[NOT] ENFORCED]``."""
    end = closing(tokens, check + 1)
    return end + starts(tokens, "ENFORCED", at=end + 1) + 2 * starts(tokens, "NOT", "ENFORCED", at=end + 1)


def _constraint_start(tokens: Tokens, check: int) -> int:
    """Where ``[CONSTRAINT [name]] CHECK`` begins."""
    if tokens[check - 2].word == "CONSTRAINT" and tokens[check - 1].kind is TokenKind.QUOTED:
        return check - 2
    return check - 1 if tokens[check - 1].word == "CONSTRAINT" else check
