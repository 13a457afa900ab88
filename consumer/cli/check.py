"""`check`: can a run go well?"""

from __future__ import annotations

from collections import Counter

from consumer.cli.command import APPLIES, command
from consumer.cli.session import Invocation
from consumer.cli.text import masked_note, out
from consumer.model.hints import hint_with_options
from consumer.results import CheckResult


@command(
    "storage-consumer check --upstream-uri 's3://bucket/cdc?protocol=canal-json&region=eu-central-1' "
    "--downstream-uri mysql://root@127.0.0.1:3306/ --tz UTC",
    (*APPLIES, "start"),
)
def check(call: Invocation) -> int:
    """Look at everything that can be known before a row is moved: the storage, the changefeed's options, the target and
    its user's rights, this machine. Prints a line each, with what to do. Exit code 5 if a run would fail."""
    from consumer import app

    found = app.check(call.settings, call.observer)
    scrub = call.settings.scrub
    told = [
        line.model_copy(update={"text": scrub(line.text), "fix": scrub(hint_with_options(line.fix, call.options))})
        for line in found.lines
    ]
    result = found.model_copy(update={"lines": tuple(told)})
    return call.show(result, lambda: print_check(result), result.exit_code)


def print_check(result: CheckResult) -> None:
    """Prints a line for each finding, the fix below it, then the count."""
    width = max(len(line.about) for line in result.lines)
    lines: list[str] = []
    for line in result.lines:
        lines.append(f"{line.verdict:<4}  {line.about:<{width}}  {line.text}")
        if line.fix:
            lines += (f"{'':<6}{part}" for part in line.fix.split("\n"))
    counts = Counter(line.verdict for line in result.lines)
    out(*lines, *masked_note(lines), ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("ok", "warn", "fail")))
