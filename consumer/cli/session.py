"""What every command needs around it: settings, log, signals, errors, exit code."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from consumer.cli.signals import Stop, stopping
from consumer.cli.text import masked_note, out, print_run, readers_may_leave, say, stopped_lines
from consumer.config.load import Loaded, load
from consumer.config.secrets import redact, scrubber
from consumer.config.settings import Settings
from consumer.config.spelling import file_key_of, flag_of, given_by, toml_text
from consumer.errors import BadConfig, Code, ConsumerError, Interrupted, Starved
from consumer.model.events import RunEnded
from consumer.model.hints import DEAD_LETTERS_UNKNOWN, hint_with_options
from consumer.model.process import lacking, words_of
from consumer.observe.live import Identity, Live
from consumer.observe.logs import Log, LogSettings
from consumer.observe.notify import Notifier
from consumer.observe.observer import CommandObserver
from consumer.observe.troubles import Places
from consumer.ports import Loader
from consumer.results import BUG, Failure, Result, RunResult, printed

DONE = 0
_URIS_ONLY = scrubber()

Head = Mapping[str, str]
"""`name` and `upstream` of a printed result; nothing if the settings are not known."""


def print_json(result: Result) -> None:
    """Prints one line, the last of stdout."""
    print(json.dumps(printed(result)), flush=True)


def _head(settings: Settings) -> Head:
    return {"name": settings.name, "upstream": redact(str(settings.upstream_uri))}


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a command's body gets. `options` are the flags of this call as a shell takes them, with secrets masked. If
    it is one of several consumers of the command, `heading` stands above its result, `printed` gets it for JSON, and
    `loader` is Spark as they share it."""

    settings: Settings
    head: Head
    observer: CommandObserver
    options: str
    stop: Stop
    endless: bool = False
    heading: str = ""
    printed: Callable[[Result], None] = print_json
    loader: Loader | None = None

    def finish(self, result: RunResult) -> int:
        """Prints a run's result. Returns its exit code."""
        self.observer.close_bar()
        noted = result.model_copy(update={"notes": tuple(self.observer.notes)})
        self.show(noted, lambda: print_run(result), result.exit_code)
        options = f"{self.options} --name {result.name}" if result.name else self.options
        lines = [self.settings.scrub(line) for line in stopped_lines(result, options, self.observer.stopped)]
        for line in (*lines, *masked_note(lines)):
            say(line)
        if result.error is not None and result.error not in {table.error for table in result.tables.values()}:
            about = f"{self.settings.name}: " if self.heading else ""
            tell(f"{about}{result.error}", hint_with_options(result.hint or "", self.options), self.settings.scrub)
        return result.exit_code

    def show(self, result: Result, as_text: Callable[[], None], exit_code: int = 0) -> int:
        """Prints a result in the form that was asked for. Returns the exit code."""
        self.observer.close_bar()
        with readers_may_leave():
            if self.settings.json_output:
                self.printed(result.model_copy(update={**self.head, "exit_code": exit_code}))
            else:
                if self.heading:
                    out(self.heading)
                as_text()
        return exit_code

    def failed(self, error: BaseException, seconds: float) -> int:
        """Reports what ended this one of several consumers. Returns its exit code."""
        failure = self._failure(f"{self.settings.name}: ")
        known = error if isinstance(error, ConsumerError) else starved(error) if isinstance(error, Exception) else None
        return failure.report_bug(error, seconds) if known is None else failure.report(known, seconds)

    def _failure(self, about: str) -> _Failure:
        settings = self.settings
        return _Failure(
            settings.verbose, settings.json_output, settings.scrub, self.head, about, self.printed, self.options
        )


Body = Callable[[Invocation], int]
OfAll = Callable[[Sequence[Invocation], Body], int]


def execute(
    body: Body,
    flags: Mapping[str, Any],
    config: str | None,
    *,
    kind: type[Settings] = Settings,
    endless: bool = False,
    of_all: OfAll | None = None,
    applies: bool = False,
) -> int:
    """Runs one command and returns its exit code. It raises nothing but KeyboardInterrupt and SystemExit. `kind` is the
    class of settings that the command needs. `endless`: a signal is how it is meant to end, so it is no error. `of_all`
    replaces `body` if there are several consumers; None: the command is for one. `applies`: it leaves its metrics where
    the settings say."""
    began, stop = time.monotonic(), Stop()
    failure = _Failure(verbose=bool(flags.get("verbose")), json=bool(flags.get("json_output")))
    try:
        loaded = load(flags, os.environ, config, kind)
        settings = loaded.settings
        several = len(loaded.several) > 1
        head = {} if several else _head(settings)
        scrub = _scrub_of(loaded) if several else settings.scrub
        failure = _Failure(settings.verbose, settings.json_output, scrub, head)
        if several and of_all is None:
            raise _for_one(loaded)
        calls = _calls(loaded, head, flags, config, stop, endless)
        failure = replace(failure, options="" if several else calls[0].options)
        code = DONE if endless else Interrupted.exit_code
        with (
            stopping(stop, code, endless=endless, hangs_up=not _rotates(settings, endless)),
            _profiling(settings),
            _serving(settings, calls, endless),
        ):
            if applies:
                failure = replace(failure, measured=partial(_measured, settings, calls))
            try:
                for note in loaded.notes:
                    calls[0].observer.tell(note)
                return failure.measured(of_all(calls, body) if several and of_all else body(calls[0]), None)
            finally:
                for call in calls:
                    if endless and stop.by:
                        call.observer.tell(RunEnded(stop.by))
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


def _calls(
    loaded: Loaded, head: Head, flags: Mapping[str, Any], config: str | None, stop: Stop, endless: bool
) -> list[Invocation]:
    """Returns the call of the command, or one for each of several consumers."""
    if len(loaded.several) < 2:
        options = options_of({**flags, **(_of_one(loaded.settings) if loaded.several else {})}, config, loaded.settings)
        return [Invocation(loaded.settings, head, _observer(loaded.settings, options, endless), options, stop)]
    found, scrub = [], _scrub_of(loaded)
    for name, settings in loaded.several.items():
        options = options_of({**flags, **_of_one(settings)}, config, settings)
        observer, head = _observer(settings, options, endless, scrub, name), _head(settings)
        heading = f"{name}: {head['upstream']} -> {redact(str(settings.downstream_uri))}"
        found.append(Invocation(settings, head, observer, options, stop, endless, heading))
    return found


def _of_one(settings: Settings) -> dict[str, str]:
    """Returns the flags of a command for this one of several."""
    return {"only": settings.name}


def _scrub_of(loaded: Loaded) -> Callable[[str], str]:
    scrubs = [settings.scrub for settings in loaded.several.values()]
    return lambda text: reduce(lambda scrubbed, scrub: scrub(scrubbed), scrubs, text)


def _for_one(loaded: Loaded) -> BadConfig:
    return BadConfig(
        f"this command is for one upstream and one target, and there are several: {', '.join(loaded.several)}",
        hint="give --only with one of these names",
    )


def _interrupted(failure: _Failure, came: KeyboardInterrupt, endless: bool, seconds: float) -> int:
    return failure.left(seconds) if endless else failure.report(Interrupted.by(came), seconds)


def _rotates(settings: Settings, endless: bool) -> bool:
    """Returns whether SIGHUP is what logrotate usually sends, once it has moved the log file."""
    return endless and settings.log_file is not None


def _profiling(settings: Settings) -> AbstractContextManager[object]:
    if not settings.enable_profiling:
        return nullcontext()
    from consumer.observe.http import serving
    from consumer.observe.profiling import ADDRESS, SITE

    return serving(SITE, ADDRESS, "enable-profiling")


def _serving(settings: Settings, calls: Sequence[Invocation], endless: bool) -> AbstractContextManager[object]:
    if settings.http is None or not endless:
        return nullcontext()
    from consumer.observe.http import serving
    from consumer.observe.page import site

    return serving(site(_lives(calls), settings.ready_lag, settings.http_token), settings.http, "http")


def _lives(calls: Sequence[Invocation]) -> list[Live]:
    return [call.observer.live for call in calls if call.observer.live is not None]


def _measured(
    settings: Settings, calls: Sequence[Invocation], exit_code: int, error: ConsumerError | None = None
) -> int:
    """Returns `exit_code`, once the metrics of the command that ends with it, by `error`, are where the settings
    say."""
    if settings.metrics_file and (lives := _lives(calls)):
        from consumer.observe.metrics import write

        for live in lives:
            live.ended(exit_code, error)
        try:
            write(lives, settings.metrics_file)
        except OSError as problem:
            say(
                f"storage-consumer: metrics-file: {settings.scrub(f'{settings.metrics_file} cannot be written')}"
                f" ({words_of(problem)})"
            )
    return exit_code


def _observer(
    settings: Settings, options: str, endless: bool, scrub: Callable[[str], str] | None = None, consumer: str = ""
) -> CommandObserver:
    level = "debug" if settings.verbose else settings.log_level
    on_terminal = settings.log_file is None and sys.stderr.isatty() and not settings.verbose and not consumer
    with_bar = on_terminal and settings.log_format == "text" and level == "info"
    # Where a bar shows the progress, lines about it would only push it away.
    shown = "warning" if with_bar else level
    log = Log(LogSettings(shown, settings.log_format, settings.log_file, scrub or settings.scrub, consumer))
    places = Places(redact(str(settings.upstream_uri)), redact(str(settings.downstream_uri)), settings.master)
    summed_up = settings.log_file is None and settings.log_format == "text" and not endless
    live = Live(_identity(settings, options)) if settings.http or settings.metrics_file else None
    notifier = None
    if settings.notify:
        whole = scrub or settings.scrub
        notifier = Notifier(settings.notify, _identity(settings, options), endless, whole, log)
    return CommandObserver(log, with_bar, places, options, summed_up, live=live, notifier=notifier)


def _identity(settings: Settings, options: str) -> Identity:
    """Returns who the consumer is, and the settings that were given, as a file has them."""
    shown = [
        (file_key_of(field).removeprefix("[consumer] "), settings.scrub(toml_text(value)))
        for field, value in settings.given
    ]
    upstream, target = redact(str(settings.upstream_uri)), redact(str(settings.downstream_uri))
    return Identity(settings.name, upstream, target, options, shown)


def options_of(flags: Mapping[str, Any], config: str | None, settings: Settings) -> str:
    """Returns the flags that a follow-up command needs as well, with secrets masked."""
    words = ["--config", config] if config else []
    for field in (name for name in Settings.model_fields if given_by(name).follows):
        given = flags.get(field) or ()
        for value in given if isinstance(given, (list, tuple)) else (given,):
            words += [flag_of(field), redact(str(value))]
    return shlex.join([*words, *(DEAD_LETTERS_UNKNOWN if settings.dead_letters is None else ())])


Measured = Callable[[int, ConsumerError | None], int]


def _unmeasured(exit_code: int, _error: ConsumerError | None) -> int:
    return exit_code


@dataclass(frozen=True, slots=True)
class _Failure:
    """How an error is reported: one sentence and a hint on stderr, a trace with -v, and JSON if it was asked for.
    `about` stands before the sentence; `printed` gets the result; `options` are the flags of commands in hints.
    `measured` leaves the metrics of a command that ends with an exit code."""

    verbose: bool = False
    json: bool = False
    scrub: Callable[[str], str] = _URIS_ONLY
    head: Head = dataclasses.field(default_factory=dict)
    about: str = ""
    printed: Callable[[Result], None] = print_json
    options: str = ""
    measured: Measured = _unmeasured

    def report(self, error: ConsumerError, seconds: float) -> int:
        hint = hint_with_options(error.hint, self.options)
        self._say(error, error.sentence(), hint)
        sentence = self.scrub(error.sentence())
        failed = Failure(code=error.code, error=sentence, hint=self.scrub(hint) or None, seconds=seconds)
        self._tell(failed, error.exit_code)
        return self.measured(error.exit_code, error)

    def report_bug(self, bug: BaseException, seconds: float) -> int:
        sentence = f"this is a bug in the consumer: {type(bug).__name__}: {bug}"
        hint = "" if self.verbose else "Run it again with -v to see the trace, and report it."
        self._say(bug, sentence, hint)
        self._tell(Failure(code=Code.BUG, error=self.scrub(sentence), hint=hint or None, seconds=seconds), BUG)
        return self.measured(BUG, None)

    def left(self, seconds: float) -> int:
        """Reports that `run` had to stop during a step, and abandoned it."""
        self._tell(RunResult(seconds=seconds), DONE)
        return DONE

    def _tell(self, result: Result, exit_code: int) -> None:
        if self.json:
            with readers_may_leave():
                self.printed(result.model_copy(update={**self.head, "exit_code": exit_code}))

    def _say(self, error: BaseException, sentence: str, hint: str) -> None:
        if self.verbose:
            say(*self.scrub("".join(traceback.format_exception(error))).rstrip().split("\n"))
        tell(f"{self.about}{sentence}", hint, self.scrub)


def tell(sentence: str, hint: str, scrub: Callable[[str], str]) -> None:
    """Prints an error for a person: one line, and one with what to do."""
    say(f"storage-consumer: {scrub(sentence)}")
    if hint:
        lines = [f"  {line}" for line in scrub(hint).split("\n")]
        say(*lines, *masked_note(lines))


def starved(error: BaseException) -> Starved | None:
    """Returns `error` as a resource that this machine, or a limit of this process, does not provide: it is no bug, and
    what was applied is recorded. Returns None if it is something else."""
    what = lacking(error)
    if not what:
        return None
    return Starved(
        f"this machine has not enough {what}: {words_of(error)}", hint="give it more, then run again; nothing is lost"
    )
