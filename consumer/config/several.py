"""[[consumer.upstreams]] and [[consumer.targets]]: several of them in one command. Each pair of an upstream and a
target is a consumer of its own, with the settings of the file and those of its two entries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any

from consumer.config.changefeed import file_values
from consumer.config.rules import from_json
from consumer.config.spelling import env_of, flag_of
from consumer.errors import BadConfig
from consumer.model.combinations import Feature, forbidden_combination
from consumer.model.names import NAME_LIMIT
from consumer.model.texts import did_you_mean
from consumer.storage.settings import StorageSettings

if TYPE_CHECKING:
    from consumer.config.settings import Settings

SEVERAL = ("upstreams", "targets")
OF_THE_COMMAND = frozenset(
    {"upstream_uri", "downstream_uri", "name", "master", "spark_conf", "worker_count", *SEVERAL, "together"}
    | {"together_max_wait", "only", "log_level", "log_format", "log_file", "enable_profiling", "verbose", "json_output"}
)
"""Settings that no entry can have: the process has one of each, or the entry says it by its name and uri."""
_NAMED = re.compile(r"([A-Za-z][\w-]*)=(?=[A-Za-z][A-Za-z0-9+.-]*://)", re.ASCII)
_NAME = re.compile(r"[A-Za-z][\w-]{0,63}", re.ASCII)
"""Not as a replay's, whose name ends with a range."""
_URI_OF = {"upstreams": "upstream_uri", "targets": "downstream_uri"}


@dataclass(frozen=True, slots=True)
class OneOfSeveral:
    """An upstream, a target, or a pair of both, which is a consumer."""

    names: tuple[str, ...]
    """Of the upstream and of the target, as far as there are several."""
    values: Mapping[str, Any]
    """What it sets, by setting."""
    places: Mapping[str, str]
    """How that is called in messages."""
    notes: tuple[str, ...] = ()
    """About what was passed over."""

    @property
    def name(self) -> str:
        """That of its progress, too."""
        return ".".join(self.names)

    @property
    def upstream(self) -> str:
        """How it is called among those that go together."""
        return self.names[0]

    @property
    def selects(self) -> frozenset[str]:
        """The names by which --only finds it."""
        return frozenset({self.name, *self.names})

    def beside(self, target: OneOfSeveral) -> OneOfSeveral:
        """The pair: what a target says counts before what its upstream says."""
        values, places = {**self.values, **target.values}, {**self.places, **target.places}
        return OneOfSeveral((*self.names, *target.names), values, places)


def several_of(
    raw: dict[str, Any], spelt: Mapping[str, str], notes: list[str], any_name: bool = False
) -> tuple[Sequence[OneOfSeveral], Sequence[OneOfSeveral]]:
    """The consumers of several upstreams and targets that the settings tell of, and those that are asked for; taken out
    of `raw`. There are none where there is one of each. `notes` gets sentences about what was passed over. `any_name`:
    --name can be none of theirs, for `forget`. Raises BadConfig."""
    only = raw.pop("only", None)
    found = {kind: _entries(kind, raw.pop(kind), spelt[kind]) for kind in SEVERAL if raw.get(kind)}
    _check_uris(found, raw, spelt)
    if given := _of_flags(raw, spelt, notes):
        found["upstreams"] = given
    if not found:
        if only is not None:
            raise BadConfig(
                f"{spelt['only']} {only} chooses one of several upstreams and targets, and there is one of each",
                hint="leave it out, or give --config the file with [[consumer.upstreams]] or [[consumer.targets]]",
            )
        return (), ()
    pairs = [reduce(OneOfSeveral.beside, one) for one in product(*(found[kind] for kind in SEVERAL if kind in found))]
    forgotten = raw.pop("name") if any_name and spelt.get("name") == flag_of("name") else None
    _check_names(pairs, raw, spelt)
    notes += [note for kind in found for entry in found[kind] for note in entry.notes]
    chosen = _chosen(pairs, only)
    return pairs, chosen if forgotten is None else [_under(str(forgotten), chosen)]


def _entries(kind: str, value: object, place: str) -> list[OneOfSeveral]:
    tables = from_json(value)
    if not isinstance(tables, Sequence) or not tables or not all(isinstance(table, Mapping) for table in tables):
        raise BadConfig(f"{place} is refused: give tables in the file, each written [[consumer.{kind}]]")
    return [_entry(kind, table, number) for number, table in enumerate(tables, 1)]


def _entry(kind: str, table: Mapping[str, Any], number: int) -> OneOfSeveral:
    name, uri = table.get("name"), table.get("uri")
    where = f"[[consumer.{kind}]] {name if isinstance(name, str) else number}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadConfig(f"{where}: name must be a letter and more letters, digits, '_' or '-', at most {NAME_LIMIT}")
    if not isinstance(uri, str):
        raise BadConfig(f"{where}: uri must be a text")
    body = {key: value for key, value in table.items() if key not in ("name", "uri")}
    whole = ("sink", "filter", "case-sensitive") if kind == "upstreams" else ()
    own = {key: value for key, value in body.items() if key not in whole}
    found = file_values({**{key: body[key] for key in whole if key in body}, "consumer": own}, where)
    for field in found.values.keys() & OF_THE_COMMAND:
        raise BadConfig(
            f"{where}: {found.places[field].rpartition(' ')[2]} is a setting of the whole command",
            hint="set it in [consumer], or by its flag",
        )
    field = _URI_OF[kind]
    places = {of: f"{where}: {place.removeprefix('[consumer] ')}" for of, place in found.places.items()}
    notes = [f"{where}: {key} is not a key this version knows; it has no effect here" for key in found.ignored]
    notes += [f"{where}: {effect}" for effect in found.effects]
    return OneOfSeveral((name,), {**found.values, field: uri}, {**places, field: f"{where}: uri"}, tuple(notes))


def _check_uris(found: Mapping[str, object], raw: Mapping[str, Any], spelt: Mapping[str, str]) -> None:
    for kind in found:
        if _URI_OF[kind] in raw:
            raise BadConfig(
                f"{spelt[_URI_OF[kind]]} gives one URI, and [[consumer.{kind}]] gives others",
                hint="leave it out; --only NAME chooses one of them",
            )


def _of_flags(raw: dict[str, Any], spelt: Mapping[str, str], notes: list[str]) -> list[OneOfSeveral]:
    """The upstreams of flags with names. Of flags without one the last counts, as for every other flag: it stays in
    `raw`."""
    given = raw.get("upstream_uri")
    uris = [given] if isinstance(given, str) else list(given or ())
    if not uris:
        return []
    place = spelt["upstream_uri"]
    named = [(found, text) for text in uris if (found := _NAMED.match(text))]
    if not named:
        raw["upstream_uri"] = uris[-1]
        if len(uris) > 1:
            notes.append(f"{place} is given {len(uris)} times without names, and the last one counts: give NAME=URI")
        return []
    if len(named) < len(uris):
        raise BadConfig(
            f"{place} is given several times, once without a name",
            hint=f"give each a name: {place} NAME=URI",
        )
    del raw["upstream_uri"]
    return [
        OneOfSeveral((found[1],), {"upstream_uri": text[found.end() :]}, {"upstream_uri": f"{place} {found[1]}"})
        for found, text in named
    ]


def _check_names(pairs: Sequence[OneOfSeveral], raw: Mapping[str, Any], spelt: Mapping[str, str]) -> None:
    if "name" in raw:
        raise BadConfig(
            f"{spelt['name']} is one name, and there are several upstreams or targets, whose progress has the names"
            f" {', '.join(pair.name for pair in pairs)}",
            hint="leave it out; --only NAME chooses one of them",
        )
    seen: set[str] = set()
    for pair in pairs:
        if pair.name.lower() in seen:
            raise BadConfig(f"two of the several upstreams and targets are called {pair.name}", hint="rename one")
        seen.add(pair.name.lower())


def _under(name: str, pairs: Sequence[OneOfSeveral]) -> OneOfSeveral:
    """What `pairs` say of the target, under a name that may be none of theirs any more."""
    if len({pair.values.get("downstream_uri") for pair in pairs}) > 1:
        raise BadConfig(
            f"--name {name} can be in several targets: those of {', '.join(pair.name for pair in pairs)}",
            hint="give --only with one of these names",
        )
    return replace(pairs[0], names=(name,))


def _chosen(pairs: Sequence[OneOfSeveral], only: object) -> list[OneOfSeveral]:
    found = [pair for pair in pairs if only is None or only in pair.selects]
    if not found:
        names = sorted({name for pair in pairs for name in pair.selects})
        raise BadConfig(
            f"{flag_of('only')} {only} is none of {', '.join(names)}{did_you_mean(str(only), names)}",
            hint=f"the names are those of the entries; it can also be set by {env_of('only')}",
        )
    return found


def check_pairs(pairs: Mapping[str, Settings]) -> None:
    """Raises BadConfig where two of them have one upstream and one target, by whatever entries."""
    seen: dict[tuple[object, ...], str] = {}
    for name, settings in pairs.items():
        storage = StorageSettings.from_uri(settings.upstream_uri).place if settings.upstream_uri else ""
        other = seen.setdefault((storage, str(settings.downstream_uri), settings.routes, settings.tables), name)
        if other != name:
            raise BadConfig(
                f"{other} and {name} have one storage and one target, in which they would write the same tables",
                hint="leave one of them out, or give it routes or tables of its own",
            )


def together(pairs: Mapping[str, Settings], upstream_of: Mapping[str, str]) -> dict[str, Settings]:
    """The settings of all pairs, each with the upstreams that it goes together with. Raises BadConfig where no moment
    is known at which an upstream is complete."""
    uris = {upstream_of[name]: settings.upstream_uri for name, settings in pairs.items()}
    for name, settings in pairs.items():
        given = {
            Feature.TOGETHER: True,
            Feature.NO_CHECKPOINT: settings.checkpoint_ts is not None,
            Feature.NO_TIMES: settings.dialect.timeless,
        }
        if (misfit := forbidden_combination(given)) is not None:
            raise misfit.refusal(name)
    if len(uris) < 2:
        raise BadConfig(
            "`together` is for several upstreams, and there is one",
            hint="leave it out, or give more of them: [[consumer.upstreams]]",
        )
    return {name: settings.in_group(upstream_of[name], uris) for name, settings in pairs.items()}
