"""`plan`: what `once` would do now, as text a paragraph a statement, a line a load, then the sums."""

from __future__ import annotations

from collections.abc import Iterator

from consumer.cli.command import READS, command
from consumer.cli.session import Invocation
from consumer.cli.text import MOST_ROWS, masked_note, out, print_notes, table_text, way_back
from consumer.model.names import without_table_name
from consumer.model.texts import count_text, one_line, size_text
from consumer.model.times import time_text
from consumer.results import PlannedStep, PlanResult

_INDENT = " " * 6


@command(
    "storage-consumer plan --config changefeed.toml --upstream-uri file:///data/cdc --tables 'shop.*'",
    (*READS, "bad rows", "applying", "start"),
)
def plan(call: Invocation) -> int:
    """Print the steps that `once` would do now, and change nothing."""
    from consumer import app

    result = app.plan(call.settings, call.observer)
    return call.show(result, lambda: print_plan(result, call.options))


def print_plan(result: PlanResult, options: str) -> None:
    """Prints every step once, in the order in which they would run; stopped tables; totals."""
    stopped = {row.table for row in result.stopped}
    for step in result.steps[:MOST_ROWS]:
        mark = " (stopped now, is tried again)" if step.table in stopped else ""
        table = table_text(step.table, step.target_table) + (f", {step.mode}" if step.mode else "") + mark
        out(*(_load_lines(step, table) if step.kind == "load" else _statement_lines(step, table)))
    if len(result.steps) > MOST_ROWS:
        out(f"... and {count_text(len(result.steps) - MOST_ROWS, 'more step')} (all of them with --json)")
    lines: list[str] = []
    for row in result.stopped:
        lines += (
            f"{row.table} is stopped: {without_table_name(row.table, row.error)}",
            *way_back(row.table, row, options),
        )
    for line in (*lines, *masked_note(lines)):
        out(line)
    out(f"{_totals(result)}, up to checkpoint {time_text(result.checkpoint_ts)}")
    print_notes(result.notes)


def _load_lines(step: PlannedStep, table: str) -> Iterator[str]:
    after = f"after {time_text(step.from_ts)} " if step.from_ts else ""
    files = count_text(step.files, "file")
    yield f"load  {table}: {files}, {size_text(step.bytes)}, {after}up to {time_text(step.to_ts)}"


def _statement_lines(step: PlannedStep, table: str) -> Iterator[str]:
    """Yields the statement as upstream ran it, then what is not as expected: other tables, a policy, another text."""
    kind = "wait" if step.kind == "barrier" else "DDL "
    removes = ", takes data away" if step.destructive else ""
    yield f"{kind}  {table}: version {step.to_ts} of {time_text(step.to_ts)}{removes}"
    upstream = one_line(step.statement)
    yield f"{_INDENT}{upstream}"
    if others := ", ".join(str(name) for name in step.touches if name != step.table):
        yield f"{_INDENT}touches {others} too"
    if step.waits_for and (step.target is None or step.waits_for != step.target.error):
        yield f"{_INDENT}waits for {step.waits_for}"
    if step.policy != "evolve":
        yield f"{_INDENT}policy: {step.policy}"
    if step.target is None:
        yield f"{_INDENT}target: nothing to execute"
        return
    if step.target.error:
        yield f"{_INDENT}target: would refuse it: {step.target.error}"
    elif not step.target.statements:
        yield f"{_INDENT}target: nothing to execute"
    texts = [one_line(text) for text in step.target.statements]
    if texts != [upstream]:
        yield from (f"{_INDENT}target: {text}" for text in texts)
    if step.target.note:
        yield f"{_INDENT}note: {step.target.note}"


def _totals(result: PlanResult) -> str:
    loads = [step for step in result.steps if step.kind == "load"]
    statements = [step for step in result.steps if step.kind == "ddl"]
    waiting = sum(step.kind == "barrier" for step in result.steps)
    removing = sum(step.destructive for step in statements)
    text = count_text(len(statements), "statement")
    text += f" ({count_text(removing, 'takes', 'take')} data away)" if removing else ""
    files, size = sum(step.files for step in loads), sum(step.bytes for step in loads)
    text += f", {count_text(len(loads), 'load')}"
    text += f" of {count_text(files, 'file')}, {size_text(size)}" if loads else ""
    text += f", {count_text(waiting, 'statement waits', 'statements wait')}" if waiting else ""
    stopped = count_text(len(result.stopped), "table is stopped", "tables are stopped")
    return text + (f", {stopped}" if result.stopped else "")
