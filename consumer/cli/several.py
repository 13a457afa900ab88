"""A command for several upstreams and targets: each is told under its name, and the exit code is the worst."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from consumer.cli.json_form import NOBODY, print_json
from consumer.cli.session import BUG, Invocation
from consumer.cli.text import readers_may_leave
from consumer.config.settings import Settings
from consumer.errors import BadConfig, Interrupted, NeedsPerson, Retryable, TableError, TargetDiffers
from consumer.model.events import Failed
from consumer.model.result import RunResult
from consumer.observe.observer import CommandObserver

_WORST_FIRST = (BUG, *(kind.exit_code for kind in (BadConfig, NeedsPerson, TargetDiffers, TableError, Retryable)), 0)
"""What needs a person comes before what may pass by itself."""


def worst(codes: Sequence[int]) -> int:
    """The exit code of all of them."""
    return min(codes, key=_WORST_FIRST.index)


def in_turn(calls: Sequence[Invocation], body: Callable[[Invocation], int]) -> int:
    """`body` of one after the other; an error of one does not hold up the others, a signal does."""
    from consumer import app

    printed: dict[str, dict[str, Any]] = {}
    codes: list[int] = []
    with app.shared_loader(calls[0].settings) as spark:
        for call in calls:
            one = replace(call, loader=app.SharedLoader(spark), printed=_into(printed, call))
            began = time.monotonic()
            try:
                if call.stop.left:
                    raise Interrupted.by(call.stop.by)
                codes.append(body(one))
            except KeyboardInterrupt as signal:
                codes.append(one.failed(Interrupted.by(signal), time.monotonic() - began))
            except Exception as error:
                met = Interrupted.by(call.stop.by) if call.stop.left else error
                codes.append(one.failed(met, time.monotonic() - began))
    return _end(calls, printed, worst(codes))


def beside(calls: Sequence[Invocation], _body: object) -> int:
    """`run` of all of them at once; their results at the end."""
    from consumer import app

    named = {call.settings.name: call for call in calls}

    def failed(name: str, error: Exception) -> None:
        named[name].observer.tell(Failed(error, app.AGAIN_AFTER))

    return _ended(calls, app.run_all(_consumers(calls), calls[0].stop, failed))


def applied(calls: Sequence[Invocation], body: Callable[[Invocation], int], command: str) -> int:
    """`once` or `backfill`: `in_turn`, but those whose rows readers see at once run at the same time."""
    from consumer import app

    if not any(app.is_one_moment(call.settings) for call in calls):
        return in_turn(calls, body)
    return _ended(calls, app.apply_all(_consumers(calls), getattr(app, command), calls[0].stop))


def _consumers(calls: Sequence[Invocation]) -> dict[str, tuple[Settings, CommandObserver]]:
    return {call.settings.name: (call.settings, call.observer) for call in calls}


def _ended(calls: Sequence[Invocation], results: Mapping[str, RunResult | BaseException | None]) -> int:
    printed: dict[str, dict[str, Any]] = {}
    codes = []
    for call in calls:
        one, result = replace(call, printed=_into(printed, call)), results[call.settings.name]
        if result is None:
            result = RunResult(unfinished=True) if call.endless else Interrupted.by(call.stop.by)
        codes.append(one.finish(result) if isinstance(result, RunResult) else one.failed(result, 0.0))
    return _end(calls, printed, worst(codes))


def _into(printed: dict[str, dict[str, Any]], call: Invocation) -> Callable[[dict[str, Any]], None]:
    return lambda body: printed.update({call.settings.name: body})


def _end(calls: Sequence[Invocation], printed: Mapping[str, Mapping[str, Any]], code: int) -> int:
    """The objects of all of them in one; their TSOs have their texts already."""
    if calls[0].settings.json_output:
        with readers_may_leave():
            print_json({**NOBODY.around({}, code), "consumers": printed})
    return code
