"""A command for several upstreams and targets: each is reported under its name, and the exit code is the worst."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from consumer.cli.session import Invocation, print_json
from consumer.cli.text import readers_may_leave
from consumer.errors import BadConfig, Interrupted, NeedsPerson, Retryable, TableError, TargetDiffers
from consumer.model.events import ConsumerFailed
from consumer.results import BUG, Result, RunResult, SeveralResult

_WORST_FIRST = (BUG, *(kind.exit_code for kind in (BadConfig, NeedsPerson, TargetDiffers, TableError, Retryable)), 0)
"""What needs a person comes before what may pass by itself."""


def worst(codes: Sequence[int]) -> int:
    """Returns the exit code of all of them."""
    return min(codes, key=_WORST_FIRST.index)


def in_turn(calls: Sequence[Invocation], body: Callable[[Invocation], int]) -> int:
    """Runs `body` of one after the other; an error of one does not hold up the others, a signal does."""
    from consumer import app

    with closing(app.loader_of(calls[0].settings)) as spark:

        def done(call: Invocation) -> int:
            one, began = replace(call, loader=spark), time.monotonic()
            try:
                if call.stop.left:
                    raise Interrupted.by(call.stop.by)
                return body(one)
            except KeyboardInterrupt as signal:
                return one.failed(Interrupted.by(signal), time.monotonic() - began)
            except Exception as error:
                met = Interrupted.by(call.stop.by) if call.stop.left else error
                return one.failed(met, time.monotonic() - began)

        return _in_one(calls, done)


def beside(calls: Sequence[Invocation], _body: object) -> int:
    """Runs `run` of all of them in parallel, with their results at the end."""
    from consumer import app

    observers = {call.settings.name: call.observer for call in calls}
    results = app.run_all(
        {call.settings.name: (call.settings, call.observer) for call in calls},
        calls[0].stop,
        lambda name, error: observers[name].tell(ConsumerFailed(error, app.AGAIN_AFTER)),
    )

    def done(call: Invocation) -> int:
        result = results[call.settings.name] or RunResult(unfinished=True)
        return call.finish(result) if isinstance(result, RunResult) else call.failed(result, 0.0)

    return _in_one(calls, done)


def _in_one(calls: Sequence[Invocation], done: Callable[[Invocation], int]) -> int:
    """Collects the results of each call that is `done` in one."""
    printed: dict[str, Result] = {}
    code = worst([done(replace(call, printed=partial(printed.__setitem__, call.settings.name))) for call in calls])
    if calls[0].settings.json_output:
        with readers_may_leave():
            told = next((one for one in printed.values() if one.exit_code == code and one.error), Result())
            why = {"code": told.code, "error": told.error, "hint": told.hint}
            print_json(SeveralResult.model_validate({"exit_code": code, **why, "consumers": printed}))
    return code
