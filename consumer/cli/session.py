"""What every command has around it: settings, log, signals, errors, exit code."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from consumer.cli.json_form import NOBODY, Head, error_as_json, print_json, run_as_json
from consumer.cli.run_text import masked_note, print_run, stopped_lines
from consumer.cli.signals import Stop, stopping
from consumer.cli.starved import starved
from consumer.cli.text import readers_may_leave, say
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.config.spelling import flag_of, follows
from consumer.config.uri import redact, scrubber
from consumer.errors import ConsumerError, Interrupted
from consumer.model.events import Ended
from consumer.model.result import RunResult
from consumer.observe.logs import Log, LogSettings
from consumer.observe.observer import CommandObserver
from consumer.observe.troubles import Places

BUG = 1
DONE = 0
_URIS_ONLY = scrubber()


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a command's body gets. `options` are the flags of this call as a shell takes them, secrets masked."""

    settings: Settings
    head: Head
    observer: CommandObserver
    options: str
    stop: threading.Event

    def finish(self, result: RunResult) -> int:
        """Print a run's result; its exit code."""
        self.observer.close_bar()
        self.show(lambda: run_as_json(result, self.observer.notes), lambda: print_run(result), result.exit_code)
        options = f"{self.options} --name {result.name}" if result.name else self.options
        lines = [self.settings.scrub(line) for line in stopped_lines(result, options, self.observer.reasons)]
        for line in (*lines, *masked_note(lines)):
            say(line)
        if result.error is not None:
            tell(result.error.sentence(), result.error.hint, self.settings.scrub)
        return result.exit_code

    def show(self, as_json: Callable[[], dict[str, Any]], as_text: Callable[[], None], exit_code: int = 0) -> int:
        """Print a result in the form that was asked for; the exit code."""
        self.observer.close_bar()
        with readers_may_leave():
            if self.settings.json_output:
                print_json(self.head.around(as_json(), exit_code))
            else:
                as_text()
        return exit_code


def execute(
    body: Callable[[Invocation], int],
    flags: Mapping[str, Any],
    config: str | None,
    *,
    kind: type[Settings] = Settings,
    endless: bool = False,
) -> int:
    """Run one command and return its exit code. Nothing but KeyboardInterrupt and SystemExit leaves it.

    `kind` are the settings that the command needs. `endless`: a signal is how it is meant to end, so it is no error.
    """
    began, stop = time.monotonic(), Stop()
    failure = _Failure(verbose=bool(flags.get("verbose")), json=bool(flags.get("json_output")))
    try:
        loaded = load(flags, os.environ, config, kind)
        settings = loaded.settings
        head = Head(settings.name, redact(str(settings.upstream_uri)))
        failure = _Failure(settings.verbose, settings.json_output, settings.scrub, head)
        options = options_of(flags, config)
        call = Invocation(settings, head, _observer(settings, options, endless), options, stop)
        code = DONE if endless else Interrupted.exit_code
        with stopping(stop, code, endless=endless), _profiling(settings):
            try:
                for note in loaded.notes:
                    call.observer.tell(note)
                return body(call)
            finally:
                if endless and stop.by:
                    call.observer.tell(Ended(stop.by))
                call.observer.close()
    except KeyboardInterrupt as came:
        return _interrupted(failure, came, endless, time.monotonic() - began)
    except ConsumerError as error:
        return failure.report(error, time.monotonic() - began)
    except Exception as error:
        lacking = starved(error)
        if lacking is not None:
            return failure.report(lacking, time.monotonic() - began)
        if stop.left:  # a native library tells of the KeyboardInterrupt in words of its own
            return _interrupted(failure, KeyboardInterrupt(stop.by), endless, time.monotonic() - began)
        return failure.report_bug(error, time.monotonic() - began)


def _interrupted(failure: _Failure, came: KeyboardInterrupt, endless: bool, seconds: float) -> int:
    return failure.left(seconds) if endless else failure.report(Interrupted.by(came), seconds)


def _profiling(settings: Settings) -> AbstractContextManager[object]:
    if not settings.enable_profiling:
        return nullcontext()
    from consumer.observe.profiling import serving

    return serving()


def _observer(settings: Settings, options: str, endless: bool) -> CommandObserver:
    level = "debug" if settings.verbose else settings.log_level
    on_terminal = settings.log_file is None and sys.stderr.isatty() and not settings.verbose
    with_bar = on_terminal and settings.log_format == "text" and level == "info"
    # Where a bar shows the progress, lines about it would only push it away.
    shown = "warning" if with_bar else level
    log = Log(LogSettings(shown, settings.log_format, settings.log_file, settings.scrub))
    places = Places(redact(str(settings.upstream_uri)), redact(str(settings.downstream_uri)), settings.master)
    summed_up = settings.log_file is None and settings.log_format == "text" and not endless
    return CommandObserver(log, with_bar, places, options, summed_up)


def options_of(flags: Mapping[str, Any], config: str | None) -> str:
    """The flags that a follow-up command needs as well, secrets masked."""
    words = ["--config", config] if config else []
    for field in filter(follows, Settings.model_fields):
        given = flags.get(field) or ()
        for value in given if isinstance(given, (list, tuple)) else (given,):
            words += [flag_of(field), redact(str(value))]
    return shlex.join(words)


@dataclass(frozen=True, slots=True)
class _Failure:
    """How an error is told: one sentence and a hint on stderr, a trace with -v, and JSON where it was asked for."""

    verbose: bool = False
    json: bool = False
    scrub: Callable[[str], str] = _URIS_ONLY
    head: Head = NOBODY

    def report(self, error: ConsumerError, seconds: float) -> int:
        self._say(error, error.sentence(), error.hint)
        body = {k: self.scrub(v) if isinstance(v, str) else v for k, v in error_as_json(error, seconds).items()}
        self._tell(body, error.exit_code)
        return error.exit_code

    def report_bug(self, bug: Exception, seconds: float) -> int:
        sentence = f"this is a bug in the consumer: {type(bug).__name__}: {bug}"
        hint = "" if self.verbose else "Run it again with -v to see the trace, and report it."
        self._say(bug, sentence, hint)
        self._tell(error_as_json(ConsumerError(self.scrub(sentence), hint=hint), seconds), BUG)
        return BUG

    def left(self, seconds: float) -> int:
        """`run` was told to stop while a step was in hand, and left it."""
        self._tell(run_as_json(RunResult(seconds=seconds), ()), DONE)
        return DONE

    def _tell(self, body: dict[str, Any], exit_code: int) -> None:
        if self.json:
            with readers_may_leave():
                print_json(self.head.around(body, exit_code))

    def _say(self, error: BaseException, sentence: str, hint: str) -> None:
        if self.verbose:
            say(*self.scrub("".join(traceback.format_exception(error))).rstrip().split("\n"))
        tell(sentence, hint, self.scrub)


def tell(sentence: str, hint: str, scrub: Callable[[str], str]) -> None:
    """An error as a person reads it: one line, and one that says what to do."""
    say(f"storage-consumer: {scrub(sentence)}")
    if hint:
        say(*scrub(f"  {hint}").split("\n"))
