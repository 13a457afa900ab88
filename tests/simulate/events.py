"""Histories: what happens, event by event, drawn from a seed. Each event has chances of its own, so that one can be
left out and the others stay what they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from consumer.codec.csv.options import CsvFormat
from tests.simulate.machine import BEHIND
from tests.simulate.style import Style
from tests.simulate.themes import THEMES, Theme

UPSTREAM = ("commit", "commit", "commit", "change", "filter", "night")
CHANGEFEED = ("flush", "flush", "execute", "publish", "catch up", "restart", "tear", "set back", "clean up")
OF_THEMES = ("damage", "take away", "mend", "rotate", "detour", "send again", "lose an index")
TARGET = ("outage", "lock", "refuse", "fail over", "drop by hand")
DURING = (
    "crash", "take over", "cut", "busy", "storage", "late task", "switch", "break a job",
    *TARGET, *CHANGEFEED, *CHANGEFEED, "commit",
)  # fmt: skip

BEHIND_A_COMMIT = ("crash", "crash", "crash", "take over", "cut", "outage")


@dataclass(frozen=True)
class Event:
    """`during`: what happens while a run of the consumer is under way, at which of its moments (see Frame)."""

    kind: str
    seed: int
    during: tuple[tuple[int, Event], ...] = ()


@dataclass(frozen=True)
class Setup:
    """What holds for a whole history. `direct`, `by_itself`, `by_table`: see Server. `goes_back`: fail-overs come."""

    style: Style
    keyless: bool = False
    own_tables: bool = False
    direct: bool = False
    by_itself: bool = False
    by_table: bool = False
    goes_back: bool = False
    index_fails: float = 0.0
    round_bytes: int = 1 << 30
    statements: float = 0.15
    never_split: bool = False
    expiration_days: int | None = 0
    """As the consumer is told; None: nobody tells it."""
    page: int = 7
    """How many names a page of a listing has."""
    in_order: bool = True
    """Whether a listing goes by names, as in object stores and not in file systems."""
    hurried: bool = False
    """Whether each round of `run` makes way for the next one as soon as it can."""
    more: str = ""
    """Which statements of Mover upstream makes, too."""
    given: bool = False
    """Whether upstream is older than the changefeed, and the target was given what there was then."""
    rules: str = ""
    """Of the settings: one of the KINDS of shaping."""
    consistency: str = "row"
    publish_bytes: int = 4000


@dataclass(frozen=True)
class History:
    seed: int
    setup: Setup
    events: tuple[Event, ...]


def history(seed: int, theme_name: str = "") -> History:
    """`theme_name`: of that theme, whichever the seed draws."""
    random = Random(seed)
    drawn = random.choice(list(THEMES))
    theme = THEMES[theme_name or drawn]
    setup = _setup(random, theme)
    upstream = [kind for kind in UPSTREAM if kind == "commit" or random.random() < 0.7]
    changefeed = _allowed([kind for kind in CHANGEFEED if kind in _NEEDED or random.random() < 0.3], setup)
    during = _allowed([kind for kind in DURING if random.random() < (0.0 if theme.only else 0.3)], setup)
    during += _allowed(list(theme.during) * 3, setup)
    target = _allowed([kind for kind in TARGET if random.random() < 0.2 and not theme.only], setup)
    between = _allowed(list(theme.between), setup)
    if setup.style.timeless:
        changefeed = ["catch up"]
        during = [kind for kind in during if kind not in CHANGEFEED]
        between = [kind for kind in between if kind not in (*CHANGEFEED, "send again") or kind == "catch up"]
    events = []
    for _ in range(random.randint(3, 12)):
        events += [_event(random, random.choice(upstream)) for _ in range(random.randint(1, 2))]
        events += [_event(random, random.choice(changefeed)) for _ in range(random.randint(1, 2))]
        for kind in random.sample(between, min(len(between), random.randint(0, 3))):
            events.append(_run(random, kind, during) if kind in ("once", "run") else _event(random, kind))
        if target and random.random() < 0.2:
            events.append(_event(random, random.choice(target)))
        if random.random() < 0.6:
            events.append(_run(random, random.choice(theme.runs), during))
    return History(seed, setup, tuple(events))


def published(found: History, consistency: str) -> History | None:
    """The same with what readers may see; None where that needs times that its rows do not have. Writers stage the
    rows then, and what the target has lost is another matter (see Server)."""
    setup = found.setup
    if consistency == "row":
        return found
    if setup.style.timeless or not setup.style.commit_ts:
        return None
    kinds = [event.kind for run in found.events for event in (run, *(other for _, other in run.during))]
    sent = 1 + sum(kind in _SEND_AGAIN for kind in kinds)
    most = max(setup.round_bytes, sent * _A_TRANSACTION)
    return replace(
        found, setup=replace(setup, consistency=consistency, publish_bytes=most, direct=False, goes_back=False)
    )


def in_a_lake(found: History) -> History:
    """The same on a target whose commits are of one table each; more happens between such a commit and the progress."""
    setup = replace(found.setup, by_table=True, direct=False, by_itself=False, goes_back=False)
    setup = replace(setup, statements=max(setup.statements, 0.5))
    return replace(found, setup=setup, events=tuple(map(_in_a_lake, found.events)))


def _in_a_lake(event: Event) -> Event:
    random = Random(event.seed)
    if event.kind == "commit":
        return replace(event, kind=random.choice(("commit", "change")))
    if event.kind not in ("once", "run"):
        return event
    more = [
        (of_kind - random.choice((1, 1, 2, 3)), _event(random, random.choice(BEHIND_A_COMMIT)))
        for of_kind in BEHIND.values()
        if random.random() < 0.6
    ]
    return replace(event, during=(*more, *event.during))


_A_TRANSACTION = 4000
"""More bytes than one of upstream has, each time that it is sent."""
_SEND_AGAIN = ("restart", "tear", "set back")


_NEEDED = ("flush", "execute", "publish")


def _event(random: Random, kind: str) -> Event:
    return Event(kind, random.getrandbits(32))


def _run(random: Random, kind: str, during: list[str]) -> Event:
    count = random.choice((0, 0, 1, 2, 3, 4)) if during else 0
    happening = [(1 + int(1.3 ** random.uniform(0, 20)), _event(random, random.choice(during))) for _ in range(count)]
    return Event(kind, random.getrandbits(32), tuple(sorted(happening, key=lambda one: one[0])))


def _setup(random: Random, theme: Theme) -> Setup:
    form, told = None, dict(theme.style)
    if random.random() < 0.35 and "csv" not in told:
        timed = random.random() < 0.7 or told.pop("commit_ts", False)
        form = CsvFormat(
            quote=random.choice(('"', '"', "")),
            include_commit_ts=timed,
            output_old_value=random.random() < 0.5,
            output_field_header=random.random() < 0.3,
        )
    classic = told.get("classic", random.random() < 0.5)
    commit_ts = form is not None or told.get("commit_ts", random.random() < 0.9)
    timeless = form is not None and not form.include_commit_ts
    can_be_keyless = commit_ts and not timeless and (form is None or form.output_old_value)
    keyless = can_be_keyless and (theme.setup.get("keyless", False) or random.random() < 0.3)
    dispatchers = 0 if classic or timeless or not commit_ts else told.get("dispatchers", random.choice((0, 0, 1, 2)))
    style = Style(
        classic=classic,
        skips=random.random() < 0.6,
        csv=form,
        commit_ts=commit_ts,
        raw=form is None and told.get("raw", random.random() < 0.3),
        dates=told.get("dates", random.random() < 0.5) and not timeless,
        dispatchers=min(dispatchers, 1) if keyless else dispatchers,
    )
    goes_back = random.random() < 0.1
    drawn = Setup(
        style,
        keyless,
        own_tables=random.random() < 0.2,
        direct=goes_back or random.random() < 0.5,
        by_itself=random.random() < 0.5,
        goes_back=goes_back,
        index_fails=0.4 if classic and not goes_back and random.random() < 0.3 else 0.0,
        round_bytes=random.choice((1, 300, 1000, 1 << 30, 1 << 30)),
        statements=random.choice((0.0, 0.1, 0.2, 0.5)),
        never_split=keyless and (bool(style.dispatchers) or style.dates),  # a row sent again may lie in another date
        expiration_days=random.choice((0, 2, 3, 5, None)) if style.dates else 0,
        page=random.choice((1, 2, 7, 100)),
        hurried=random.random() < 0.3,
    )
    drawn = replace(drawn, **{name: value for name, value in theme.setup.items() if _fits(name, drawn)})
    return replace(drawn, rules=random.choice(theme.rules)) if theme.rules else drawn


def _fits(name: str, drawn: Setup) -> bool:
    style = drawn.style
    needs = {"keyless": drawn.keyless, "never_split": drawn.keyless, "expiration_days": style.dates}
    return needs.get(name, True) and (name != "index_fails" or style.classic)


def _allowed(kinds: list[str], setup: Setup) -> list[str]:
    return [
        kind
        for kind in kinds
        if (kind != "clean up" or setup.expiration_days != 0)
        and (kind != "fail over" or setup.goes_back)
        and (kind != "tear" or not setup.goes_back)
    ]
