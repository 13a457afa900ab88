"""[[consumer.masks]]: what stands in the target, what never does, and which tables cannot be masked."""

from __future__ import annotations

import hashlib
import hmac
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.codec.errors import FileCoordinates
from consumer.config.load import load
from consumer.config.settings import InspectSettings, Settings
from consumer.errors import BadConfig, CannotBeExact, LoadFailed, RowRefused, SchemaDrift, TableError
from consumer.model.actions import Action
from consumer.model.check import Repairing
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.rules import Mask, MaskKind, Shaping, hide_masked_values
from tests.servers import MariaDb
from tests.support.canal_json import typed_line
from tests.support.every_target import Duck
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

T = TableName("d", "people")
KEY = "a key of more than sixteen characters"
COLUMNS = (
    Column("mail", "VARCHAR", length=100, nullable=False, is_pk=True),
    Column("name", "VARCHAR", length=40),
    Column("phone", "VARCHAR", length=20),
    Column("city", "VARCHAR", length=20),
    Column("born", "DATE"),
    Column("note", "TEXT"),
)
CREATE = (
    "CREATE TABLE `people` (`mail` VARCHAR(100) PRIMARY KEY, `name` VARCHAR(40), `phone` VARCHAR(20),"
    " `city` VARCHAR(20), `born` DATE, `note` TEXT)"
)
MASKS: list[dict[str, Any]] = [
    {"tables": ["d.people"], "columns": ["MAIL"], "mask": "hash", "key": "env:MASK_KEY"},
    {"tables": ["d.*"], "columns": ["na*"], "mask": "truncate", "length": 1},
    {"tables": ["d.*"], "columns": ["phone"], "mask": "partial", "length": 3},
    {"tables": ["d.*"], "columns": ["born"], "mask": "fixed", "value": "1900-01-01"},
    {"tables": ["d.*"], "columns": ["note", "phone"], "mask": "null"},
]
Row = tuple[str, str | None, str | None, str | None, str | None, str | None]
ANA: Row = ("ana@x.org", "Ana", "555-1234", "Rome", "1990-05-05", "secret of Ana")
BO: Row = ("bo@x.org", "Übo", "12", None, None, None)
CY: Row = ("cy@x.org", None, None, "Oslo", "1980-01-01", "secret of Cy")
PROTOCOLS = ("canal-json", "csv")


def hashed(text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def line(protocol: str, ts: int, kind: str, row: Row) -> bytes:
    if protocol == "csv":
        cells = ",".join("\\N" if value is None else f'"{value}"' for value in row)
        return f'"{kind[0]}","people","d",{ts},{cells}\r\n'.encode()
    values = {c.name: value for c, value in zip(COLUMNS, row, strict=True)}
    return typed_line(COLUMNS, ts, values, kind, table="people")


def settings(feed: Feed, url: str, protocol: str = "canal-json", **flags: Any) -> Settings:
    own = {"upstream_uri": f"file://{feed.folder}?protocol={protocol}", "downstream_uri": url, "tz": "UTC"}
    timed = {"csv_include_commit_ts": True} if protocol == "csv" else {}
    return load({**own, **timed, "masks": MASKS, **flags}, {"MASK_KEY": KEY}).settings


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_masked_value_gets_to_the_target_and_rows_are_told_apart(
    feed: Feed, database: tuple[str, Callable[[str], list[tuple[Any, ...]]]], protocol: str
) -> None:
    url, ask = database
    feed.statement("d.people", 2, Action.CREATE_TABLE, CREATE, COLUMNS)
    first = [line(protocol, 10 + n, "INSERT", row) for n, row in enumerate((ANA, BO, CY))]
    extension = "csv" if protocol == "csv" else "json"
    feed.file("d.people", 2, b"".join(first), extension=extension)
    feed.checkpoint(20)
    own = settings(feed, url, protocol)
    planned = app.plan(own, Recorder())
    assert any("masks na* (truncate); masks phone (partial)" in note for note in planned.notes)
    assert app.once(own, Recorder(), InlineLoader()).exit_code == 0
    query = "SELECT mail, name, phone, city, CAST(born AS CHAR), note FROM d.people ORDER BY phone, city"
    if "duckdb" in url:
        query = query.replace("AS CHAR", "AS VARCHAR").replace("ORDER BY phone", "ORDER BY phone NULLS FIRST")
    expected = [
        (hashed("cy@x.org"), None, None, "Oslo", "1900-01-01", None),
        (hashed("bo@x.org"), "Ü", "**", None, "1900-01-01", None),
        (hashed("ana@x.org"), "A", "*****234", "Rome", "1900-01-01", None),
    ]
    assert ask(query) == expected
    more = line(protocol, 30, "UPDATE", (*ANA[:3], "Bern", *ANA[4:])) + line(protocol, 31, "DELETE", CY)
    feed.file("d.people", 2, more, extension=extension)
    feed.checkpoint(40)
    assert app.once(own, Recorder(), InlineLoader()).exit_code == 0
    left = [expected[1], (*expected[2][:3], "Bern", *expected[2][4:])]
    assert ask(query) == left
    assert [table.state for table in app.verify(own, Recorder(), loader=InlineLoader()).tables] == ["equal"]
    ask(f"UPDATE d.people SET name = 'X' WHERE mail = '{hashed('bo@x.org')}'")
    found = app.verify(own, Recorder(), loader=InlineLoader(), repairing=Repairing(write=True))
    assert [table.state for table in found.tables] == ["equal"]
    assert ask(query) == left


def test_another_key_or_mask_is_refused_and_the_key_is_nowhere(feed: Feed, fresh_mariadb: MariaDb) -> None:
    feed.statement("d.people", 2, Action.CREATE_TABLE, CREATE, COLUMNS)
    feed.file("d.people", 2, line("canal-json", 10, "INSERT", ANA))
    feed.checkpoint(20)
    own = settings(feed, fresh_mariadb.url())
    assert app.once(own, Recorder(), InlineLoader()).exit_code == 0
    assert KEY not in repr(own)
    assert KEY not in repr(own.shaping_of(T))
    assert own.scrub(f"a trace with {KEY}") == "a trace with ***"
    assert KEY not in str(fresh_mariadb.execute("SELECT filters FROM storage_consumer.consumer"))
    other = load(
        {"upstream_uri": own.upstream_uri, "downstream_uri": own.downstream_uri, "tz": "UTC", "masks": MASKS},
        {"MASK_KEY": KEY + "!"},
    ).settings
    for changed in (other, settings(feed, fresh_mariadb.url(), masks=MASKS[:-1])):
        with pytest.raises(BadConfig, match=r"the filters of d\.people are not those"):
            app.once(changed, Recorder(), InlineLoader())


DAMAGED = {
    "a number": ("canal-json", b'"phone":"555-1234"', b'"phone":5551234', b"5551234"),
    "a text without quotes": ("csv", b'"secret of Ana"', b"secret-of-Ana", b"secret-of-Ana"),
    "a text in other quotes": ("csv", b'"secret of Ana"', b"'secret of Ana'", b"secret of Ana"),
    "a quote that does not end": ("csv", b'"ana@x.org"', b'"ana@x.org', b"ana@x.org"),
    "a value in place of the database": ("csv", b'"d",10,"ana@x.org"', b'"ana@x.org",10,"d"', b"ana@x.org"),
    "a value in place of the commit-ts": ("csv", b'"d",10,"ana@x.org"', b'"d","ana@x.org",10', b"ana@x.org"),
    "that at the end of the file": ("csv", b'"d",11,"cy@x.org"', b'"d","cy@x.org",11', b"cy@x.org"),
}


@pytest.mark.parametrize("keyed", [0, 2])
@pytest.mark.parametrize(("protocol", "good", "bad", "secret"), DAMAGED.values(), ids=DAMAGED)
def test_a_line_that_cannot_be_read_is_not_shown_and_not_kept(
    protocol: str,
    good: bytes,
    bad: bytes,
    secret: bytes,
    keyed: int,
    feed: Feed,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Not in what a run, `plan` or `verify` gives and tells, nor in the progress, nor in a letter. It is told that a
    reason is not shown, and where."""
    folder = tmp_path_factory.mktemp("own")
    feed.statement("d.people", 2, Action.CREATE_TABLE, CREATE, COLUMNS)
    content = b"".join(line(protocol, ts, "INSERT", row) for ts, row in ((9, BO), (10, ANA), (11, CY)))
    file = feed.file("d.people", 2, content, extension="json" if protocol == "canal-json" else "csv")
    feed.checkpoint(20)
    letters = {"on_bad_row": "quarantine", "dead_letters": f"file://{folder}/letters", "tables": ["d.people"]}
    begun, before = Recorder(), settings(feed, f"duckdb:///{folder}/before.duckdb", protocol, **letters)
    assert app.once(before, begun, InlineLoader(keyed)).exit_code == 0
    file.write_bytes(content.replace(good, bad))
    own, observer = settings(feed, f"duckdb:///{folder}/own.duckdb", protocol, **letters), Recorder()
    results = [
        app.verify(before, observer, loader=InlineLoader(keyed)),
        app.plan(own, observer),
        result := app.once(own, observer, InlineLoader(keyed)),
        app.status(own, observer),
    ]
    assert result.exit_code == 3
    assert "what is wrong is not shown, as columns of the table are masked" in (result.tables[T].error or "")
    assert file.name in (result.tables[T].error or "")
    everything = f"{results}{vars(observer)}".encode()
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert [text for text in (everything, *written) if secret in text] == []
    seen = app.once(settings(feed, f"duckdb:///{folder}/seen.duckdb", protocol, masks=[]), observer, InlineLoader())
    assert seen.exit_code == 3
    assert "is not shown" not in str(seen)


def test_errors_say_whether_they_hold_what_rows_have() -> None:
    """Without a word of it they are taken to; a reason of one more row of theirs goes as well."""
    shaping = Shaping(masks=(Mask(("v",), MaskKind.NULL),))
    refused = RowRefused("Incorrect string value: 'secret'", row=1, more=[(2, True, "secret")], hint="'secret'", line=7)
    unknown = type("New", (TableError,), {})("secret", hint="secret")
    for error in (refused, unknown, CannotBeExact("secret"), SchemaDrift("secret"), LoadFailed("secret")):
        assert "secret" not in str(hide_masked_values(error, shaping).as_dict())
        assert "secret" in str(hide_masked_values(error, Shaping(where="v > 1")).as_dict())
    kept = hide_masked_values(refused, shaping)
    assert isinstance(kept, RowRefused)
    assert (kept.row, kept.line, [row for row, _, _ in kept.rows]) == (1, 7, [1, 2])
    varied = FileCoordinates("CDC1.csv", "d.t").lacking(["v"], 3)
    assert hide_masked_values(varied, shaping) is varied
    assert "column v" in pickle.loads(pickle.dumps(varied)).message


ID = Column("id", "INT", nullable=False, is_pk=True)


@pytest.mark.parametrize(
    ("mask", "columns", "body", "why"),
    [
        ({"mask": "null"}, (ID, Column("v", "INT", nullable=False)), "v INT NOT NULL", "it is NOT NULL"),
        ({"mask": "null"}, (ID, Column("v", "INT")), "v INT UNIQUE", "column v is one of a key"),
        ({"mask": "fixed", "value": "x"}, (ID, Column("v", "INT")), "v INT", "'x' is no value of it"),
        ({"mask": "fixed", "value": "300"}, (ID, Column("v", "TINYINT")), "v TINYINT", "'300' is no value of it"),
        ({"mask": "fixed", "value": "1"}, (ID, Column("v", "JSON")), "v JSON", "'1' is no value of it"),
        ({"mask": "truncate", "length": 1}, (ID, Column("v", "INT")), "v INT", "truncate is for texts"),
        ({"mask": "partial", "length": 1}, (ID, Column("v", "BLOB")), "v BLOB", "partial is for texts"),
        (
            {"mask": "hash", "key": "env:MASK_KEY"},
            (ID, Column("v", "VARCHAR", length=63)),
            "v VARCHAR(63)",
            "a hash needs",
        ),
        (
            {"mask": "hash", "key": "env:MASK_KEY"},
            (ID, Column("v", "VARCHAR", length=80)),
            "`v` VARCHAR(80), UNIQUE KEY (`v`(10))",
            "column v is one of a key",
        ),
        (
            {"mask": "hash", "key": "env:MASK_KEY"},
            (ID, Column("v", "VARCHAR", length=80)),
            "v VARCHAR(80), UNIQUE KEY ((lower(v)))",
            "depends on column v, which is masked",
        ),
        (
            {"mask": "null"},
            (ID, Column("v", "INT"), Column("w", "INT")),
            "v INT, w INT AS (v + 1) STORED",
            "column w depends on column v, which is masked",
        ),
        (
            {"mask": "null"},
            (ID, Column("u", "INT"), Column("v", "INT")),
            "u INT, v INT AS (u + 1) STORED",
            "column v is masked (null) and generated",
        ),
        (
            {"mask": "null"},
            (ID, Column("u", "INT")),
            "u INT, `V` INT GENERATED ALWAYS AS (u + 1)",
            "column V is masked (null) and generated",
        ),
    ],
)  # fmt: skip
def test_masks_that_cannot_stand_there_stop_the_table(
    feed: Feed, fresh_mariadb: MariaDb, mask: dict[str, Any], columns: tuple[Column, ...], body: str, why: str
) -> None:
    feed.statement("d.t", 2, Action.CREATE_TABLE, f"CREATE TABLE `t` (`id` INT PRIMARY KEY, {body})", columns)
    feed.file("d.t", 2, typed_line(columns, 10, {column.name: "1" for column in columns}))
    feed.checkpoint(20)
    masks = [{"tables": ["d.t"], "columns": ["v"], **mask}]
    result = app.once(settings(feed, fresh_mariadb.url(), masks=masks), Recorder(), InlineLoader())
    table = result.tables[TableName("d", "t")]
    assert (result.exit_code in (3, 5), table.state) == (True, "stopped")
    assert why in table.error
    masks = [{"tables": ["d.t"], "columns": ["other*"], **mask}]
    result = app.once(settings(feed, fresh_mariadb.url(), masks=masks), Recorder(), InlineLoader())
    assert result.exit_code == 0 or "lower" in body, result.tables[TableName("d", "t")].error


def test_a_mask_for_a_column_that_the_table_never_had_stops_it(feed: Feed, tmp_path: Path) -> None:
    feed.statement("d.people", 2, Action.CREATE_TABLE, CREATE, COLUMNS)
    feed.file("d.people", 2, line("canal-json", 10, "INSERT", ANA))
    feed.checkpoint(20)
    url = f"duckdb:///{tmp_path / 'replica.duckdb'}"

    def masked(table: str, *columns: str) -> tuple[str, str]:
        masks = [{"tables": [table], "columns": [*columns], "mask": "null"}]
        result = app.once(settings(feed, url, masks=masks), Recorder(), InlineLoader())
        return result.tables[T].state, result.tables[T].error

    state, error = masked("d.people", "Note", "fone")
    assert (state, "columns of it that it never had (fone)" in error) == ("stopped", True)
    assert masked("`d`.people", "fone")[0] == "stopped"
    planned = app.plan(
        settings(feed, url, masks=[{"tables": ["d.people"], "columns": ["fone"], "mask": "null"}]), Recorder()
    )
    assert ["never had (fone)" in stopped.error for stopped in planned.stopped] == [True]
    assert masked("d.people", "Note", "fone*") == ("ok", "")
    assert Duck(tmp_path / "replica.duckdb")("SELECT phone, note FROM d.people") == [(ANA[2], None)]


def test_a_masked_column_may_be_gone_or_come_later(feed: Feed, tmp_path: Path) -> None:
    """Its rows of other versions have it, so its name is right."""
    feed.statement("d.people", 2, Action.CREATE_TABLE, CREATE, COLUMNS)
    feed.file("d.people", 2, line("canal-json", 10, "INSERT", ANA))
    rest = tuple(column for column in COLUMNS if column.name != "note")
    feed.statement("d.people", 20, Action.DROP_COLUMN, "ALTER TABLE `people` DROP COLUMN `note`", rest)
    feed.checkpoint(30)
    url = f"duckdb:///{tmp_path / 'replica.duckdb'}"
    masks = [{"tables": ["d.people"], "columns": ["note"], "mask": "null"}]
    assert app.once(settings(feed, url, masks=masks), Recorder(), InlineLoader()).exit_code == 0
    written = json.loads(line("canal-json", 40, "INSERT", BO))
    del written["data"][0]["note"], written["mysqlType"]["note"]
    feed.file("d.people", 20, json.dumps(written).encode() + b"\r\n")
    feed.checkpoint(50)
    assert app.once(settings(feed, url, masks=masks), Recorder(), InlineLoader()).exit_code == 0


def test_a_column_does_not_lose_its_mask_with_its_name(feed: Feed, fresh_mariadb: MariaDb) -> None:
    feed.statement("d.people", 2, Action.CREATE_TABLE, CREATE, COLUMNS)
    feed.file("d.people", 2, line("canal-json", 10, "INSERT", ANA))
    renamed = tuple(Column("tel", "VARCHAR", length=20) if c.name == "phone" else c for c in COLUMNS)
    query = "ALTER TABLE `people` RENAME COLUMN `phone` TO `tel`"
    feed.statement("d.people", 20, Action.MODIFY_COLUMN, query, renamed)
    feed.checkpoint(30)
    result = app.once(settings(feed, fresh_mariadb.url()), Recorder(), InlineLoader())
    assert result.exit_code == 5
    assert "it renames column phone to tel, and these are not masked alike" in result.tables[T].error


@pytest.mark.parametrize(
    ("body", "column", "why"),
    [
        (
            "`mail` VARCHAR(20) NOT NULL",
            Column("mail", "VARCHAR", length=20, nullable=False, is_pk=True),
            "a hash needs",
        ),
        ("`phone` INT", Column("phone", "INT"), "partial is for texts"),
        ("`note` TEXT NOT NULL", Column("note", "TEXT", nullable=False), "it is NOT NULL"),
    ],
)
def test_a_column_does_not_become_one_that_cuts_the_masked_values(
    feed: Feed, fresh_mariadb: MariaDb, body: str, column: Column, why: str
) -> None:
    feed.statement("d.people", 2, Action.CREATE_TABLE, CREATE, COLUMNS)
    feed.file("d.people", 2, line("canal-json", 10, "INSERT", ANA))
    changed = tuple(column if c.name == column.name else c for c in COLUMNS)
    feed.statement("d.people", 20, Action.MODIFY_COLUMN, f"ALTER TABLE `people` MODIFY COLUMN {body}", changed)
    feed.checkpoint(30)
    result = app.once(settings(feed, fresh_mariadb.url()), Recorder(), InlineLoader())
    assert (result.exit_code, why in result.tables[T].error) == (5, True), result.tables[T].error
    query = "SELECT mail, phone, note FROM d.people"
    assert fresh_mariadb.execute(query) == [(hashed("ana@x.org"), "*****234", None)]


@pytest.mark.parametrize("start", ["keyless", "not created"])
def test_tables_whose_keys_are_not_known_are_not_masked(feed: Feed, fresh_mariadb: MariaDb, start: str) -> None:
    columns = (Column("id", "INT", nullable=False, is_pk=start != "keyless"), Column("v", "INT"))
    if start == "keyless":
        feed.statement("d.t", 2, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT NOT NULL, `v` INT)", columns)
    else:
        feed.describe("d.t", 2, columns)
        fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    feed.puts("d.t", 2, {10: (1, "5")})
    feed.checkpoint(20)
    masks = [{"tables": ["d.t"], "columns": ["v"], "mask": "null"}]
    result = app.once(settings(feed, fresh_mariadb.url(), masks=masks), Recorder(), InlineLoader())
    why = "it has no key" if start == "keyless" else "its CREATE TABLE is not in the storage"
    assert why in result.tables[TableName("d", "t")].error
    assert fresh_mariadb.execute("SELECT * FROM d.t") == []


RULE: dict[str, Any] = {"tables": ["d.t"], "columns": ["v"]}


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({**RULE, "mask": "md5"}, "mask 'md5' is not allowed; give null, fixed, hash, truncate, partial"),
        ({**RULE, "mask": "hash"}, "the mask hash needs a key"),
        ({**RULE, "mask": "hash", "key": KEY}, "key must name a secret, as env:MASK_KEY"),
        ({**RULE, "mask": "hash", "key": "env:SHORT"}, "key has less than 16 characters"),
        ({**RULE, "mask": "hash", "key": "env:NONE"}, "the environment's variable NONE, which is not set"),
        ({**RULE, "mask": "null", "value": "x"}, "the mask null has no value"),
        ({**RULE, "mask": "fixed", "value": 5}, "value must be a text, also for a number"),
        ({**RULE, "mask": "partial", "length": -1}, "length must be a number of characters"),
        ({"tables": ["d.t"], "mask": "null"}, "columns must be a list of texts"),
        ({**RULE, "mask": "null", "x": 1}, "x is not a key; known are tables, columns, mask"),
    ],
)
def test_rules_that_are_wrong_are_refused_and_no_key_is_shown(rule: dict[str, Any], why: str) -> None:
    flags = {"upstream_uri": "file:///cdc?protocol=canal-json", "masks": [rule]}
    with pytest.raises(BadConfig) as refused:
        load(flags, {"MASK_KEY": KEY, "SHORT": "fifteen letters"})
    assert why in str(refused.value)
    assert KEY not in str(refused.value)
    assert "fifteen" not in str(refused.value)


def test_masks_do_not_go_with_a_target_that_has_the_tables_already() -> None:
    flags = {"upstream_uri": "file:///cdc?protocol=canal-json", "masks": MASKS, "start_ts": "5"}
    with pytest.raises(BadConfig, match="would leave the values"):
        load(flags, {"MASK_KEY": KEY})


def test_inspect_prints_nothing_of_masked_rows(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    """A cell without quotes looks like the text of NULL."""
    feed.statement("d.people", 2, Action.CREATE_TABLE, CREATE, COLUMNS)
    cells = b'"I","people","d",470611813613961217,"m",%s,"1","c","2000-01-01","n"\r\n'
    feed.file("d.people", 2, cells % b'"x"' + cells % b"SeCrEt", extension="csv")
    feed.checkpoint(470611813613961218)
    flags = {"upstream_uri": f"file://{feed.folder}"}
    shown = app.inspect(load(flags, {}, kind=InspectSettings).settings, Recorder())
    assert "SeCrEt" in shown.toml
    masked = app.inspect(load({**flags, "masks": MASKS[1:2]}, {}, kind=InspectSettings).settings, Recorder())
    assert "SeCrEt" not in masked.model_dump_json()
    assert any("rows of tables with masks are not looked at" in text for text in masked.findings)
