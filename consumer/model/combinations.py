"""Defines which features do not go together. Whatever refuses a pair takes the sentence from here, and docs/shaping.md
shows the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from consumer.errors import BadConfig


class Feature(StrEnum):
    """A feature that the settings, or the way the changefeed writes, give to a table. The text names it in the docs."""

    MODE = "table mode `append`, `soft-delete` or `history`"
    COLUMNS = "`[[consumer.columns]]`"
    MERGE = "route that merges"
    FILTER = "row or event filter"
    MASK = "mask"
    START = "`--start-ts`"
    REPLAY = "`replay` of a range"
    CONSISTENCY = "`--consistency table` or `snapshot`"
    SYNCPOINTS = "syncpoints"
    TOGETHER = "`together`"
    NO_TIMES = "CSV without commit-ts"
    NO_CHECKPOINT = "no `metadata`"


NO_NAMES: Mapping[Feature, str] = {}


@dataclass(frozen=True, slots=True)
class Combination:
    """The reason why two features do not go together, without the table's name, and what to do. ``{mode}`` and
    ``{consistency}`` stand for the settings' values, ``{option}`` for what makes the changefeed write commit-ts."""

    why: str
    hint: str

    def of(self, names: Mapping[Feature, str] = NO_NAMES, option: str = "") -> Combination:
        """Returns the texts with these names of features."""
        given = {
            "mode": names.get(Feature.MODE, ""),
            "consistency": names.get(Feature.CONSISTENCY, ""),
            "option": option,
        }
        return Combination(self.why.format_map(given), self.hint.format_map(given))

    def refusal(self, of: str = "") -> BadConfig:
        """Returns the error of settings that no storage can follow. `of` names the table or the upstream that they are
        for."""
        return BadConfig(f"{of}: {self.why}" if of else self.why, hint=self.hint)


_WITH_TIMES = "set {option}, and have it write to a new prefix"
_ALONE = "leave `together` out, or leave this upstream out of the file"
_MIRRORS_ONLY = "filters or masks, which are for mirrors only"
_MERGED = Combination(
    f"a route merges it with others, and it has {_MIRRORS_ONLY}",
    "leave the table out of the route, or out of the filters and masks",
)
_IN_A_MODE = Combination(
    f"it has the table mode {{mode}}, and {_MIRRORS_ONLY}",
    "leave the table out of [[consumer.table-modes]], or out of the filters and masks",
)
_MERGED_IN_A_MODE = Combination(
    "a route merges it with others, and a rule gives it the table mode {mode}",
    "leave it out of the route, or out of the rules of [[consumer.table-modes]] and [[consumer.columns]]",
)
COMBINATIONS: Mapping[tuple[Feature, Feature], Combination] = {
    (Feature.MERGE, Feature.MODE): _MERGED_IN_A_MODE,
    (Feature.MERGE, Feature.COLUMNS): _MERGED_IN_A_MODE,
    (Feature.MERGE, Feature.FILTER): _MERGED,
    (Feature.MERGE, Feature.MASK): _MERGED,
    (Feature.MODE, Feature.FILTER): _IN_A_MODE,
    (Feature.MODE, Feature.MASK): _IN_A_MODE,
    (Feature.MODE, Feature.NO_TIMES): Combination(
        "rows of this changefeed do not say when they were committed, and the mode {mode} needs that", _WITH_TIMES
    ),
    (Feature.MERGE, Feature.START): Combination(
        "a route merges it with others, and which rows of it the target has is not known",
        "fill the target from the storage, or leave that route out",
    ),
    (Feature.MASK, Feature.START): Combination(
        "it has masks, and --start-ts would leave the values that the target has",
        "fill the target from the storage, or leave the masks out",
    ),
    (Feature.START, Feature.NO_TIMES): Combination(
        "rows of this changefeed do not say when they were committed: --start-ts cannot tell old from new ones",
        _WITH_TIMES,
    ),
    (Feature.START, Feature.REPLAY): Combination(
        "--start-ts is for a replica that continues", "replay begins at --from-ts: give that instead"
    ),
    (Feature.REPLAY, Feature.NO_TIMES): Combination(
        "rows of this changefeed do not say when they were committed, so no range of time can be replayed",
        f"leave --from-ts and --to-ts out; or {_WITH_TIMES}",
    ),
    (Feature.CONSISTENCY, Feature.NO_TIMES): Combination(
        "--consistency {consistency} needs to know when rows were committed, and this changefeed does not say it",
        "use --consistency row, or a changefeed with {option}",
    ),
    (Feature.CONSISTENCY, Feature.NO_CHECKPOINT): Combination(
        "--consistency {consistency} needs a checkpoint: without `metadata` no moment is known at which the rows are"
        " complete",
        "use --consistency row, or --checkpoint-ts with a TSO up to which the files are complete",
    ),
    (Feature.SYNCPOINTS, Feature.NO_TIMES): Combination(
        "syncpoints are moments of the upstream, and rows of this changefeed do not say when they were committed",
        f"{_WITH_TIMES}; or leave syncpoints out",
    ),
    (Feature.TOGETHER, Feature.NO_TIMES): Combination(
        "`together` needs the commit-ts of its rows, as upstreams go together from one moment to the next",
        _ALONE,
    ),
    (Feature.TOGETHER, Feature.NO_CHECKPOINT): Combination(
        "`together` needs a checkpoint in its `metadata`, as upstreams go together from one moment to the next",
        _ALONE,
    ),
}


def forbidden_combination(features: Mapping[Feature, str | bool], option: str = "") -> Combination | None:
    """Returns the first pair of these features that does not go together, None if all do. The value of a feature is its
    name for the texts, or whether it is used. `option` is what makes the changefeed write commit-ts."""
    used = {feature for feature, value in features.items() if value}
    names = {feature: value for feature, value in features.items() if isinstance(value, str)}
    pairs = (combination for pair, combination in COMBINATIONS.items() if used.issuperset(pair))
    return next((combination.of(names, option) for combination in pairs), None)


def combinations_table() -> str:
    """Returns a Markdown table, one row for each pair."""
    rows = ["| This | does not go with | because |", "| --- | --- | --- |"]
    for (first, other), combination in COMBINATIONS.items():
        shown = combination.of({Feature.MODE: "M", Feature.CONSISTENCY: "LEVEL"})
        rows.append(f"| {first} | {other} | {shown.why} |")
    return "\n".join(rows)
