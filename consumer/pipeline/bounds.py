"""The first and last commit-ts of files, where a round needs them to separate its loads."""

from __future__ import annotations

from consumer.errors import ConsumerError, CorruptFile
from consumer.model.files import Bounds
from consumer.model.times import MAX_TSO
from consumer.pipeline.context import RoundContext
from consumer.pipeline.unreadable import put_off, stop_for_files


def learn_bounds(context: RoundContext) -> None:
    """Read the bounds that the round wants, those of files that it was not told of before. Tables with a file that has
    none are stopped."""
    wanted, lessons = context.round.wants_bounds(), context.lessons.bounds
    if not wanted:
        return
    bounds = context.ports.reader.bounds([file for file in wanted if file not in lessons])
    files = {file.path: file for file in wanted}
    known = {path: found for path, found in bounds.items() if isinstance(found, Bounds)}
    lessons |= {files[path]: found for path, found in known.items()}
    failed = {path: found for path, found in bounds.items() if isinstance(found, ConsumerError)}
    told = {file.path: lessons[file] for file in wanted if file in lessons}
    context.round.learned(told | _damaged(context, failed))
    if failed:
        stop_for_files(context, failed)


def _damaged(context: RoundContext, failed: dict[str, ConsumerError]) -> dict[str, Bounds]:
    """Takes files out of `failed` whose first or last row is bad, and which go on without it: any row may be in
    them."""
    found = {}
    for name, consumer in context.consumers.items():
        paths = [entry.file.path for entry in consumer.state.unread if entry.file.path in failed]
        if not paths or not context.options.rules.bad_row_action(name).quarantines:
            continue
        for path in paths:
            error = failed[path]
            if isinstance(error, CorruptFile) and not put_off(context, name, error):
                found[path] = Bounds(0, MAX_TSO, exact=True)
                del failed[path]
    return found
