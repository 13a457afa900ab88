"""Reads flags, environment and file into Settings. Nothing else reads any of them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import ValidationError

from consumer.codec import PROTOCOLS
from consumer.config.changefeed import FileValues, read_changefeed
from consumer.config.fields import UNPROVEN
from consumer.config.secrets import MASK, is_masked, resolve_pairs, resolve_secrets, scrubber
from consumer.config.sentences import first_error
from consumer.config.settings import Settings, TargetSettings
from consumer.config.several import OF_THE_COMMAND, SEVERAL, OneOfSeveral, check_pairs, several_of, together
from consumer.config.spelling import env_of, flag_of, key_of
from consumer.config.values import is_local
from consumer.errors import BadConfig
from consumer.model.combinations import Feature, forbidden_combination
from consumer.model.events import Note, NoteKind
from consumer.model.texts import nearest

CONFIG_ENV = "STORAGE_CONSUMER_CONFIG"
_PREFIX = "STORAGE_CONSUMER_"
_NO_SETTINGS = (CONFIG_ENV, f"{_PREFIX}JARS")
"""Variables that are read elsewhere: the jars' folder in `sink/lake/jars.py`."""
_OF_A_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_|$)")
"""Kubernetes sets these variables in every container if a Service is called storage-consumer."""
_LEFT_OPEN = tuple(key for protocol in PROTOCOLS.values() for key in protocol.left_open)
_HINTS = {
    "upstream_uri": "Give --upstream-uri, for example --upstream-uri 'file:///data/cdc?protocol=canal-json'.",
    "protocol": "Add ?protocol=canal-json to --upstream-uri, or give the changefeed's TOML with --config.",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and notes about how they were read. `several` has those of each pair of an upstream and a target,
    by the pair's name, if there are several; then `settings` are the first pair's."""

    settings: Settings
    notes: tuple[Note, ...] = ()
    several: Mapping[str, Settings] = dataclasses.field(default_factory=dict)


def load(
    flags: Mapping[str, Any], env: Mapping[str, str], config: str | None = None, kind: type[Settings] = Settings
) -> Loaded:
    """Returns settings from `flags` (by field name, only those given), else from `env`, else from the file; `kind` is
    the class that a command needs. Raises BadConfig."""
    path = config or env.get(CONFIG_ENV)
    file = read_changefeed(path) if path else FileValues()
    from_env = _environment(env)
    raw = {**file.values, **from_env, **flags}
    spelt = {**file.places, **{f: env_of(f) for f in from_env}, **{f: flag_of(f) for f in flags}}
    notes = [f"{key} in {path} is not a key this version knows; it has no effect here" for key in file.ignored]
    notes += [f"{path}: {effect}" for effect in file.effects]
    forgets = issubclass(kind, TargetSettings)
    all_of_them, selected = several_of(raw, spelt, notes, any_name=forgets)
    if not selected:
        settings = _settings(kind, raw, spelt, file, env)
        return Loaded(together({"": settings}, {"": ""})[""] if settings.together else settings, _notes(notes))
    first = {f: value for f, value in raw.items() if f in from_env or f in flags}
    # Those that go together must know all of them.
    pairs = all_of_them if raw.get("together") and not forgets else selected
    settings_by_pair = {pair.name: _of_pair(kind, pair, first, spelt, file, env) for pair in pairs}
    check_pairs(settings_by_pair)
    if next(iter(settings_by_pair.values())).together and not forgets:
        settings_by_pair = together(settings_by_pair, {pair.name: pair.upstream for pair in pairs})
    chosen = {pair.name: settings_by_pair[pair.name] for pair in selected}
    return Loaded(next(iter(chosen.values())), _notes(notes), chosen)


def _of_pair(
    kind: type[Settings],
    pair: OneOfSeveral,
    first: Mapping[str, Any],
    spelt: Mapping[str, str],
    file: FileValues,
    env: Mapping[str, str],
) -> Settings:
    """Returns the settings of a pair; `first` are those of flags and the environment."""
    own_values = {f: pair.values[f] for f in pair.values.keys() & OF_THE_COMMAND}
    raw = {**file.values, **pair.values, **first, **own_values, "name": pair.name}
    for field in (*SEVERAL, "only"):
        raw.pop(field, None)
    places = {**pair.places, **{f: spelt[f] for f in spelt if f in first or f not in pair.places}}
    try:
        return _settings(kind, raw, {**places, **{f: pair.places[f] for f in own_values}, "name": "name"}, file, env)
    except BadConfig as error:
        error.message = f"{pair.name}: {error.message}"
        raise


def _notes(texts: Iterable[str]) -> tuple[Note, ...]:
    return tuple(Note(NoteKind.SETTING, text) for text in texts)


def _features(settings: Settings) -> dict[Feature, str | bool]:
    """Returns the features of all tables, whatever the storage holds. Those of single tables are checked when a round
    opens."""
    for_all = settings.start_ts.whole is not None
    return {
        Feature.START: for_all,
        Feature.MASK: for_all and bool(settings.masks),
        Feature.MERGE: for_all and any(route.merge for route in settings.routes),
        Feature.SYNCPOINTS: bool(settings.syncpoints),
        Feature.NO_TIMES: bool(settings.syncpoints) and settings.dialect.timeless,
    }


def _settings(
    kind: type[Settings], raw: dict[str, Any], spelt: dict[str, str], file: FileValues, env: Mapping[str, str]
) -> Settings:
    _of_uri(raw, spelt)
    _check_secrets(raw, spelt)
    _read_secrets(raw, spelt, env)
    raw["unproven"] = _unsaid(raw, file)
    settings = _checked(kind, raw, spelt, env)
    settings.note_given({field: value for field, value in raw.items() if field != "unproven"})
    conf = resolve_pairs(settings.spark_conf, spelt.get("spark_conf", ""), env)
    settings = settings.model_copy(update={"spark_conf": conf})
    if kind is Settings:
        PROTOCOLS[settings.protocol].check(settings.dialect, settings.unproven)
        if settings.key_loss and not settings.accept_key_loss:
            raise settings.key_loss
        if (misfit := forbidden_combination(_features(settings), PROTOCOLS[settings.protocol].commit_ts)) is not None:
            raise misfit.refusal()
        if settings.http is not None and not settings.http_token and not is_local(settings.http[0]):
            raise BadConfig(
                f"{spelt['http']}: other machines reach {settings.http[0]}, and no http-token is set",
                hint=f"set {env_of('http_token')}, or http-token in the file; or serve on 127.0.0.1",
            )
        if settings.quarantines and settings.dead_letters is None:
            raise BadConfig(
                "on-bad-row is quarantine, and dead-letters does not say where quarantined rows go",
                hint="give --dead-letters, for example --dead-letters file:///data/dead-letters",
            )
    return settings


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that hold settings, by field; empty ones count as not set."""
    fields = {env_of(field): field for field in Settings.model_fields}
    variables = {
        name: text for name, text in env.items() if name.startswith(_PREFIX) and text and name not in _NO_SETTINGS
    }
    for name in variables:
        if name not in fields and not _OF_A_SERVICE.search(name):
            names = (field.removeprefix(_PREFIX) for field in (*fields, *_NO_SETTINGS))
            close = nearest(name.removeprefix(_PREFIX), names)
            raise BadConfig(
                f"{name} is not a setting" + (f"; did you mean {_PREFIX}{close}?" if close else ""),
                hint=f"unset {name}; docs/settings.md lists the variables that are settings",
            )
    return {fields[name]: text for name, text in variables.items() if name in fields}


def _of_uri(raw: dict[str, Any], spelt: dict[str, str]) -> None:
    """Reads ``?protocol=`` of the upstream URI, and what else TiCDC takes from there, as a flag, as in TiCDC."""
    try:
        query = parse_qs(urlsplit(str(raw.get("upstream_uri", ""))).query)
    except ValueError:
        return  # not a URI: refused by the setting's own check, with a better sentence
    for field in ("protocol", "date_separator", "terminator", "output_raw_change_event", "file_expiration_days"):
        texts = query.get(key_of(field))
        if texts:
            raw[field], spelt[field] = texts[-1], f"{key_of(field)} in --upstream-uri"


def _check_secrets(raw: Mapping[str, Any], spelt: Mapping[str, str]) -> None:
    for field in ("upstream_uri", "downstream_uri", "dead_letters"):
        if is_masked(str(raw.get(field, ""))):
            raise BadConfig(
                f"{spelt[field]} has {MASK} instead of a secret, which is never printed",
                hint=f"put the secret there, or leave the flag out and set {env_of(field)}",
            )


def _read_secrets(raw: dict[str, Any], spelt: Mapping[str, str], env: Mapping[str, str]) -> None:
    for field in ("upstream_uri", "downstream_uri", "dead_letters"):
        if raw.get(field):
            raw[field] = resolve_secrets(str(raw[field]), spelt[field], env)


def _unsaid(raw: Mapping[str, Any], file: FileValues) -> object:
    """Returns the missing keys that decide how values are read. A key that is missing in a changefeed's own file has
    TiCDC's default, unless the file is from `inspect`, which names the keys that it could not prove."""
    unproven = raw.get("unproven", () if file.is_changefeed else _LEFT_OPEN)
    keys = unproven.split(",") if isinstance(unproven, str) else unproven
    return [key for key in keys if UNPROVEN.get(key) not in raw] if isinstance(keys, (list, tuple)) else keys


def _checked(
    kind: type[Settings], raw: Mapping[str, Any], spelt: Mapping[str, str], env: Mapping[str, str]
) -> Settings:
    """Returns the settings; `spelt` are their names as the person who set them wrote them. Rules read the secrets that
    they name from `env`."""
    try:
        return kind.model_validate(raw, context=env)
    except ValidationError as problem:
        field, reason = first_error(problem)
        name = spelt.get(field) or flag_of(field) or key_of(field)
        scrub = scrubber(*(str(raw[uri]) for uri in ("upstream_uri", "downstream_uri", "dead_letters") if uri in raw))
        raise BadConfig(f"{name} {scrub(reason)}", hint=_HINTS.get(field, "") if field not in raw else "") from None
