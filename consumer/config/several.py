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
"""Settings that no entry can have: the process has one of each, or the entry sets it by its name and uri."""
_NAMED = re.compile(r"([A-Za-z][\w-]*)=(?=[A-Za-z][A-Za-z0-9+.-]*://)", re.ASCII)
_NAME = re.compile(r"[A-Za-z][\w-]{0,63}", re.ASCII)
"""It differs from the name of a replay, which ends with a range."""
_URI_OF = {"upstreams": "upstream_uri", "targets": "downstream_uri"}


@dataclass(frozen=True, slots=True)
class OneOfSeveral:
    """An upstream, a target, or a pair of both, which is a consumer."""

    names: tuple[str, ...]
    """The names of the upstream and of the target, if there are several of these."""
    values: Mapping[str, Any]
    """Its values, by setting."""
    places: Mapping[str, str]
    """The name of each setting in messages."""
    notes: tuple[str, ...] = ()
    """Notes about what was ignored."""

    @property
    def name(self) -> str:
        """Its name, which is also that of its progress."""
        return ".".join(self.names)

    @property
    def upstream(self) -> str:
        """Its name among those that go together."""
        return self.names[0]

    @property
    def selects(self) -> frozenset[str]:
        """The names by which --only selects it."""
        return frozenset({self.name, *self.names})

    def beside(self, target: OneOfSeveral) -> OneOfSeveral:
        """Returns the pair: a target's values precede those of its upstream."""
        values, places = {**self.values, **target.values}, {**self.places, **target.places}
        return OneOfSeveral((*self.names, *target.names), values, places)


def several_of(
    raw: dict[str, Any], spelt: Mapping[str, str], notes: list[str], any_name: bool = False
) -> tuple[Sequence[OneOfSeveral], Sequence[OneOfSeveral]]:
    """Returns the consumers of several upstreams and targets in the settings, and those that are selected; their
    settings are removed from `raw`. There are none if there is one of each. Sentences about what was ignored are added
    to `notes`. `any_name`: --name can be none of theirs, for `forget`. Raises BadConfig."""
    only = raw.pop("only", None)
    entries = {kind: _entries(kind, raw.pop(kind), spelt[kind]) for kind in SEVERAL if raw.get(kind)}
    _check_uris(entries, raw, spelt)
    if named_upstreams := _of_flags(raw, spelt, notes):
        entries["upstreams"] = named_upstreams
    if not entries:
        if only is not None:
            raise BadConfig(
                f"{spelt['only']} {only} chooses one of several upstreams and targets, and there is one of each",
                hint="leave it out, or give --config the file with [[consumer.upstreams]] or [[consumer.targets]]",
            )
        return (), ()
    pairs = [
        reduce(OneOfSeveral.beside, combination)
        for combination in product(*(entries[kind] for kind in SEVERAL if kind in entries))
    ]
    forgotten = raw.pop("name") if any_name and spelt.get("name") == flag_of("name") else None
    _check_names(pairs, raw, spelt)
    notes += [note for kind in entries for entry in entries[kind] for note in entry.notes]
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
    file_keys = ("sink", "filter", "case-sensitive") if kind == "upstreams" else ()
    settings = {key: value for key, value in body.items() if key not in file_keys}
    file = file_values({**{key: body[key] for key in file_keys if key in body}, "consumer": settings}, where)
    for field in file.values.keys() & OF_THE_COMMAND:
        raise BadConfig(
            f"{where}: {file.places[field].rpartition(' ')[2]} is a setting of the whole command",
            hint="set it in [consumer], or by its flag",
        )
    field = _URI_OF[kind]
    places = {of: f"{where}: {place.removeprefix('[consumer] ')}" for of, place in file.places.items()}
    notes = [f"{where}: {key} is not a key this version knows; it has no effect here" for key in file.ignored]
    notes += [f"{where}: {effect}" for effect in file.effects]
    return OneOfSeveral((name,), {**file.values, field: uri}, {**places, field: f"{where}: uri"}, tuple(notes))


def _check_uris(found: Mapping[str, object], raw: Mapping[str, Any], spelt: Mapping[str, str]) -> None:
    for kind in found:
        if _URI_OF[kind] in raw:
            raise BadConfig(
                f"{spelt[_URI_OF[kind]]} gives one URI, and [[consumer.{kind}]] gives others",
                hint="leave it out; --only NAME chooses one of them",
            )


def _of_flags(raw: dict[str, Any], spelt: Mapping[str, str], notes: list[str]) -> list[OneOfSeveral]:
    """Returns the upstreams of flags with names. If no flag has a name, the last one counts, as for every other flag:
    it stays in `raw`."""
    value = raw.get("upstream_uri")
    uris = [value] if isinstance(value, str) else list(value or ())
    if not uris:
        return []
    place = spelt["upstream_uri"]
    matches = [(match, text) for text in uris if (match := _NAMED.match(text))]
    if not matches:
        raw["upstream_uri"] = uris[-1]
        if len(uris) > 1:
            notes.append(f"{place} is given {len(uris)} times without names, and the last one counts: give NAME=URI")
        return []
    if len(matches) < len(uris):
        raise BadConfig(
            f"{place} is given several times, once without a name",
            hint=f"give each a name: {place} NAME=URI",
        )
    del raw["upstream_uri"]
    return [
        OneOfSeveral((match[1],), {"upstream_uri": text[match.end() :]}, {"upstream_uri": f"{place} {match[1]}"})
        for match, text in matches
    ]


def _check_names(pairs: Sequence[OneOfSeveral], raw: Mapping[str, Any], spelt: Mapping[str, str]) -> None:
    if "name" in raw:
        raise BadConfig(
            f"{spelt['name']} is one name, and there are several upstreams or targets, whose progress has the names"
            f" {', '.join(pair.name for pair in pairs)}",
            hint="leave it out; --only NAME chooses one of them",
        )
    names: set[str] = set()
    for pair in pairs:
        if pair.name.lower() in names:
            raise BadConfig(f"two of the several upstreams and targets are called {pair.name}", hint="rename one")
        names.add(pair.name.lower())


def _under(name: str, pairs: Sequence[OneOfSeveral]) -> OneOfSeveral:
    """Returns what `pairs` set about the target, under a name that may no longer be one of theirs."""
    if len({pair.values.get("downstream_uri") for pair in pairs}) > 1:
        raise BadConfig(
            f"--name {name} can be in several targets: those of {', '.join(pair.name for pair in pairs)}",
            hint="give --only with one of these names",
        )
    return replace(pairs[0], names=(name,))


def _chosen(pairs: Sequence[OneOfSeveral], only: object) -> list[OneOfSeveral]:
    selected = [pair for pair in pairs if only is None or only in pair.selects]
    if not selected:
        names = sorted({name for pair in pairs for name in pair.selects})
        raise BadConfig(
            f"{flag_of('only')} {only} is none of {', '.join(names)}{did_you_mean(str(only), names)}",
            hint=f"the names are those of the entries; it can also be set by {env_of('only')}",
        )
    return selected


def check_pairs(pairs: Mapping[str, Settings]) -> None:
    """Raises BadConfig if two of them have one upstream and one target, whatever their entries are."""
    name_by_place: dict[tuple[object, ...], str] = {}
    for name, settings in pairs.items():
        storage = StorageSettings.from_uri(settings.upstream_uri).place if settings.upstream_uri else ""
        other = name_by_place.setdefault(
            (storage, str(settings.downstream_uri), settings.routes, settings.tables), name
        )
        if other != name:
            raise BadConfig(
                f"{other} and {name} have one storage and one target, in which they would write the same tables",
                hint="leave one of them out, or give it routes or tables of its own",
            )


def together(pairs: Mapping[str, Settings], upstream_of: Mapping[str, str]) -> dict[str, Settings]:
    """Returns the settings of all pairs, each with the upstreams that it goes together with. Raises BadConfig if there
    is no known moment at which an upstream is complete."""
    uris = {upstream_of[name]: settings.upstream_uri for name, settings in pairs.items()}
    for name, settings in pairs.items():
        features = {
            Feature.TOGETHER: True,
            Feature.NO_CHECKPOINT: settings.checkpoint_ts is not None,
            Feature.NO_TIMES: settings.dialect.timeless,
        }
        if (misfit := forbidden_combination(features)) is not None:
            raise misfit.refusal(name)
    if len(uris) < 2:
        raise BadConfig(
            "`together` is for several upstreams, and there is one",
            hint="leave it out, or give more of them: [[consumer.upstreams]]",
        )
    return {name: settings.in_group(upstream_of[name], uris) for name, settings in pairs.items()}
