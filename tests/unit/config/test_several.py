"""Several upstreams and targets in the settings: which pairs they make, with which settings, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.config.load import Loaded, load
from consumer.errors import BadConfig
from consumer.model.names import TableName
from consumer.model.table_modes import ModeKind

TWO = """
[[consumer.upstreams]]
name = "eu"
uri = "file:///eu?protocol=canal-json"
routes = [{ from = "bank.*", to = "eu.*" }]

[[consumer.upstreams]]
name = "us"
uri = "file:///us?protocol=csv"
sink = { csv = { include-commit-ts = true } }
tables = ["bank.*"]
"""
TARGETS = """
[[consumer.targets]]
name = "lake"
uri = "duckdb:///lake.duckdb"
table-modes = [{ tables = ["*.*"], mode = "append" }]

[[consumer.targets]]
name = "copy"
uri = "mysql://u:secretword@h:1/"
"""


def loaded(tmp_path: Path, text: str, **flags: object) -> Loaded:
    file = tmp_path / "changefeed.toml"
    file.write_text(text, encoding="utf-8")
    return load(flags, {}, str(file))


def refused(tmp_path: Path, text: str, **flags: object) -> str:
    with pytest.raises(BadConfig) as error:
        loaded(tmp_path, text, **flags)
    return f"{error.value.message} | {error.value.hint}"


def test_each_upstream_has_the_general_settings_and_its_own(tmp_path: Path) -> None:
    found = loaded(tmp_path, '[consumer]\ntz = "UTC"\ntables = ["b.*"]\ndownstream-uri = "duckdb:///r.duckdb"\n' + TWO)
    assert list(found.several) == ["eu", "us"]
    eu, us = found.several.values()
    assert (eu.name, us.name) == ("eu", "us")
    assert (str(eu.upstream_uri), str(us.upstream_uri)) == (
        "file:///eu?protocol=canal-json",
        "file:///us?protocol=csv",
    )
    assert eu.downstream_uri == us.downstream_uri == "duckdb:///r.duckdb"
    assert (eu.tables, us.tables, eu.tz, us.tz) == (("b.*",), ("bank.*",), "UTC", "UTC")
    assert eu.naming.target(TableName("bank", "a")) == TableName("eu", "a")
    assert us.naming.target(TableName("bank", "a")) == TableName("bank", "a")
    assert us.dialect.options.include_commit_ts  # type: ignore[union-attr]


def test_pairs_of_upstreams_and_targets(tmp_path: Path) -> None:
    found = loaded(tmp_path, TWO + TARGETS)
    assert list(found.several) == ["eu.lake", "eu.copy", "us.lake", "us.copy"]
    forms = {name: s.naming.mode(TableName("bank", "a")) for name, s in found.several.items()}
    assert [name for name, form in forms.items() if form and form.kind is ModeKind.APPEND] == ["eu.lake", "us.lake"]
    assert list(loaded(tmp_path, TWO + TARGETS, only="us").several) == ["us.lake", "us.copy"]
    assert list(loaded(tmp_path, TWO + TARGETS, only="copy").several) == ["eu.copy", "us.copy"]
    assert loaded(tmp_path, TWO + TARGETS, only="us.copy").settings.name == "us.copy"
    one = loaded(tmp_path, TARGETS, upstream_uri="file:///one?protocol=canal-json")
    assert list(one.several) == ["lake", "copy"]


def test_upstreams_of_flags() -> None:
    uris = ["file:///a?protocol=canal-json", "file:///b?protocol=canal-json"]
    last = load({"upstream_uri": uris}, {})
    assert (last.several, str(last.settings.upstream_uri), last.settings.name) == ({}, uris[1], "default")
    assert "the last one counts" in last.notes[0].text
    named = load({"upstream_uri": [f"eu={uris[0]}", f"us={uris[1]}"]}, {})
    assert [(name, str(s.upstream_uri)) for name, s in named.several.items()] == [("eu", uris[0]), ("us", uris[1])]
    plain = load({"upstream_uri": uris[:1]}, {})
    assert not plain.several
    assert (plain.settings.name, str(plain.settings.upstream_uri)) == ("default", uris[0])
    assert load({"upstream_uri": f"eu={uris[0]}"}, {}).settings.name == "eu"


def test_flags_count_before_entries(tmp_path: Path) -> None:
    found = loaded(tmp_path, TWO, tables=["x.*"])
    assert {s.tables for s in found.several.values()} == {("x.*",)}


def test_secrets_of_entries_are_not_shown(tmp_path: Path) -> None:
    found = loaded(tmp_path, TWO + TARGETS)
    assert "secretword" not in repr(found.several["eu.copy"])
    assert "secretword" not in found.several["eu.copy"].scrub("no: secretword")
    file = tmp_path / "pw"
    file.write_text("hidden-word", encoding="utf-8")
    entry = f"""
[[consumer.targets]]
name = "t"
uri = "mysql://u@h:1/?password=file:{file}"
"""
    assert "hidden-word" in str(loaded(tmp_path, TWO + entry, only="eu").settings.downstream_uri)


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        (TWO, {"upstream_uri": "file:///x"}, "--upstream-uri gives one URI, and [[consumer.upstreams]] gives others"),
        (TARGETS, {"downstream_uri": "duckdb:///x"}, "--downstream-uri gives one URI"),
        (TWO, {"name": "n"}, "whose progress has the names eu, us | leave it out; --only NAME"),
        (TWO, {"only": "eux"}, "--only eux is none of eu, us; did you mean eu?"),
        ("", {"only": "eu", "upstream_uri": "file:///x?protocol=csv"}, "--only eu chooses one of several"),
        (TWO.replace('"us"', '"EU"'), {}, "are called EU | rename one"),
        (TWO.replace('"us"', '"u.s"'), {}, "name must be a letter and more letters"),
        (TWO.replace('"us"', '"1-2"'), {}, "name must be a letter and more letters"),
        (TWO.replace('name = "us"', ""), {}, "[[consumer.upstreams]] 2: name must be"),
        (TWO.replace('uri = "file:///us?protocol=csv"', ""), {}, "[[consumer.upstreams]] us: uri must be a text"),
        (TWO.replace("tables", "log-level"), {}, "us: log-level is a setting of the whole command"),
        (TWO.replace("tables", "tabels"), {}, "[[consumer.upstreams]] us: [consumer] tabels is not a setting; did you"),
        (TWO.replace('["bank.*"]', '["bank"]'), {}, "[[consumer.upstreams]] us: tables is refused: 'bank'"),
        (TWO.replace("file:///us", "ftp://us"), {}, "us: the upstream URI has scheme 'ftp'"),
        (TWO.replace("csv?", ""), {"tz": "nowhere"}, "--tz is refused"),
        ('[consumer]\nupstreams = "x"', {}, "[consumer] upstreams is refused: give tables in the file"),
        (TARGETS.replace("table-modes", "sink"), {"upstream_uri": "file:///x"}, "lake: [consumer] sink is not"),
        (
            TWO.replace("file:///us?protocol=csv", "file:///eu?protocol=csv").replace("tables", "never-split").replace(
                'routes = [{ from = "bank.*", to = "eu.*" }]', ""
            ),
            {},
            "eu and us have one storage and one target",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, text: str, flags: dict[str, object], said: str) -> None:
    assert said in refused(tmp_path, text, **flags)


def test_one_container_of_two_accounts_is_two_storages(tmp_path: Path) -> None:
    """Containers of Azure are an account's own, and so are buckets behind an endpoint."""

    def entry(name: str, uri: str) -> str:
        return f'[[consumer.upstreams]]\nname = "{name}"\nuri = "{uri}protocol=canal-json"\n'

    general = '[consumer]\ntz = "UTC"\ndownstream-uri = "duckdb:///r.duckdb"\n'
    for uri, other in (
        ("azblob://cdc/tidb?account-name=eu&", "azblob://cdc/tidb?account-name=us&"),
        ("s3://cdc/tidb?endpoint=http://eu:9000&", "s3://cdc/tidb?endpoint=http://us:9000&"),
    ):
        assert list(loaded(tmp_path, general + entry("eu", uri) + entry("us", other)).several) == ["eu", "us"]
        assert "one storage and one target" in refused(tmp_path, general + entry("eu", uri) + entry("us", uri))
