"""What the names of an export's files say, and its `metadata`."""

from __future__ import annotations

import pytest

from consumer.errors import BadConfig, CorruptFile
from consumer.layout.export import classify_files, data_files, export_moment, schema_files
from consumer.model.actions import Action
from consumer.model.export import DumplingFormat
from consumer.model.files import StoredFile
from consumer.model.names import TableName
from tests.support.export import escaped

WHOLE = "Started dump at: x\nSHOW MASTER STATUS:\n\tLog: {}\n\tPos: {}\n\tGTID:\n\n{}Finished dump at: x\n"
FORM = DumplingFormat(tso=470611618366488576)


def stored(*paths: str) -> list[StoredFile]:
    return [StoredFile(path, 10, "a") for path in paths]


def test_names_are_as_they_were() -> None:
    for name in ("a.b", "100%", "x/y", "a-schema", 'q?*<>|:"\\', "new\nline", "日本", "`tick`", "plain"):
        files = classify_files(
            stored(
                f"{escaped(name)}-schema-create.sql",
                f"{escaped(name)}.{escaped(name)}-schema.sql.gz",
                f"{escaped(name)}.{escaped(name)}.000000000.sql.zst",
            )
        )
        assert files.tables == [TableName(name, name)]
        assert list(files.rows) == [TableName(name, name)]
        assert TableName(name, "") in files.statements


def test_files_of_a_table_are_numbered_in_the_order_of_their_numbers() -> None:
    names = [f"d.t.{number:013d}.csv" for number in (20001, 1, 20000, 0)]
    files = classify_files(stored("metadata", "d-schema-create.sql", "d.t-schema.sql", "d.e-schema.sql", *names))
    texts = dict.fromkeys(files.statements, "CREATE DATABASE `d`;")
    texts |= {TableName("d", name): f"CREATE TABLE `{name}` (`id` int);" for name in "te"}
    schemas, _ = schema_files(files, texts, FORM)
    (found,) = data_files(files, schemas).values()
    assert [(file.index, file.path[-10:]) for file in found] == [
        (1, "000000.csv"), (2, "000001.csv"), (3, "020000.csv"), (4, "020001.csv"),
    ]  # fmt: skip
    assert [file.action for file in schemas] == [Action.CREATE_SCHEMA, Action.CREATE_TABLE, Action.CREATE_TABLE]
    assert all(file.version < FORM.tso for file in schemas)


def test_views_come_behind_what_they_show() -> None:
    views = {"a": "b", "b": "c", "c": "t"}
    files = classify_files(
        stored("d.t-schema.sql", *(f"d.{v}-schema{end}.sql" for v in views for end in ("", "-view"))),
    )
    texts = {TableName("d", "t"): "CREATE TABLE `t` (`id` int);"}
    drop = "DROP VIEW IF EXISTS `{0}`;\nSET @X=1;\n"
    texts |= {
        TableName(
            "d", v
        ): f"{drop.format(v)}CREATE ALGORITHM=UNDEFINED VIEW `{v}` (`id`) AS SELECT `id` FROM `d`.`{of}`;"
        for v, of in views.items()
    }
    found, _ = schema_files(files, texts, FORM)
    assert [file.table for file in found] == ["t", "c", "b", "a"]
    assert found[1].query == "CREATE ALGORITHM=UNDEFINED VIEW `c` (`id`) AS SELECT `id` FROM `d`.`t`"


def test_rows_that_tidb_would_delete_by_itself_stay() -> None:
    files = classify_files(stored("d.t-schema.sql"))
    ttl = "/*T![ttl] TTL=`at` + INTERVAL 1 DAY */ /*T![ttl] TTL_ENABLE='ON' */"
    ((found,), _) = schema_files(files, {TableName("d", "t"): f"CREATE TABLE `t` (`at` datetime) {ttl};\n"}, FORM)
    assert found.query == f"CREATE TABLE `t` (`at` datetime) {ttl.replace('ON', 'OFF')}"


@pytest.mark.parametrize(
    "name", ["result.000000000.sql", "t.sql", "d.t.000000000.parquet", "d.t-000000000.sql", "notes.txt", "d/t.1.sql"]
)
def test_a_name_of_another_program_is_refused(name: str) -> None:
    with pytest.raises(BadConfig, match="a file whose name Dumpling does not give") as caught:
        classify_files(stored("d.t-schema.sql", name))
    assert "output-filename-template" in caught.value.hint


def test_what_a_changefeed_does_not_replicate_is_passed_over() -> None:
    names = (
        "d.s-schema-sequence.sql",
        "d.t-schema-triggers.sql.gz",
        "d.p-schema-post.sql",
        "p-placement-policy-create.sql",
    )
    assert list(classify_files(stored("d.t-schema.sql", *names)).statements) == [TableName("d", "t")]


def numbered(*numbers: str) -> list[StoredFile]:
    return stored("d.t-schema.sql", *(f"d.t.{number}" for number in numbers))


@pytest.mark.parametrize(
    ("numbers", "lost"),
    [
        (("000000000.sql", "000000002.sql"), "d.t.000000001.sql"),
        (("000000001.sql.gz", "000000002.sql.gz"), "d.t.000000000.sql.gz"),
        (("0000000010000.csv", "0000000010002.csv"), "d.t.0000000010001.csv"),
        (("0000000000000.csv", "0000000010001.csv"), "d.t.0000000010000.csv"),
        (("0000000000000.csv", "0000000030000.csv"), ""),
    ],
)
def test_a_file_that_is_missing_between_others(numbers: tuple[str, ...], lost: str) -> None:
    """A chunk without rows has no file; the first one of a chunk that has some is number 0 of it."""
    if not lost:
        assert len(classify_files(numbered(*numbers)).rows[TableName("d", "t")]) == 2
        return
    with pytest.raises(BadConfig, match=f"the export lacks {lost}$") as caught:
        classify_files(numbered(*numbers))
    chunks = len(numbers[0]) > len("000000000.sql.gz")
    assert ("?rows=" in caught.value.hint) is not chunks
    assert classify_files(numbered(*numbers), lambda name: False).rows, "only what is asked for is looked at"
    if not chunks:
        assert classify_files(numbered(*numbers), chunks=True).rows, "--rows alone numbers chunks"


def test_a_file_without_rows_is_none_of_an_export() -> None:
    with pytest.raises(BadConfig, match=r"d\.t\.000000000\.sql is empty"):
        classify_files([*stored("d.t-schema.sql"), StoredFile("d.t.000000000.sql", 0, "a")])


@pytest.mark.parametrize("other", ["000000001.csv", "000000001.sql.gz", "0000000010000.sql"])
def test_files_of_two_exports_in_one_folder(other: str) -> None:
    with pytest.raises(BadConfig, match=r"d\.t\.000000000\.sql and .* are of two exports"):
        classify_files(numbered("000000000.sql", other), chunks=True)


def test_rows_without_their_create_table_are_refused() -> None:
    with pytest.raises(BadConfig, match=r"rows of d\.t, but not its CREATE TABLE"):
        classify_files(stored("d.t.000000000.sql"))


def test_a_statement_that_is_cut_off_leaves_its_table_out_alone() -> None:
    texts = {TableName("d", "t"): "CREATE TABLE `t` (`id` int", TableName("d", "u"): "CREATE TABLE `u` (`id` int);"}
    found, refused = schema_files(classify_files(stored("d.t-schema.sql", "d.u-schema.sql")), texts, FORM)
    assert [file.table for file in found] == ["u"]
    ((name, error),) = refused.items()
    assert (name.table, type(error), "no whole CREATE TABLE" in error.message) == ("t", CorruptFile, True)


def test_the_version_of_a_statement_is_the_same_whatever_else_the_export_has() -> None:
    texts = {TableName("d", name): f"CREATE TABLE `{name}` (`id` int);" for name in "abc"}
    names = [f"d.{name}-schema.sql" for name in "abc"]
    every, _ = schema_files(classify_files(stored(*names)), texts, FORM)
    (last,), _ = schema_files(classify_files(stored(names[-1])), texts, FORM)
    assert last in every


def test_the_moment_of_an_export() -> None:
    assert export_moment(WHOLE.format("tidb-binlog", 470611618366488576, "")) == "470611618366488576"
    assert export_moment(WHOLE.format("tidb-binlog", "2026-11-26 10:00:00", "")) == "2026-11-26 10:00:00"
    twice = "SHOW MASTER STATUS: /* AFTER CONNECTION POOL ESTABLISHED */\n\tLog: tidb-binlog\n\tPos: {}\n\tGTID:\n\n"
    assert export_moment(WHOLE.format("tidb-binlog", 5, twice.format(5))) == "5"
    for text, why in (
        (WHOLE.format("tidb-binlog", 5, twice.format(6)), "several moments: 5, 6"),
        (WHOLE.format("ON.000001", 154, ""), r"no TSO of TiDB \(ON\.000001\)"),
        (WHOLE.replace("Finished", "").format("tidb-binlog", 5, ""), "not complete"),
        ("Started dump at: x\nFinished dump at: y\n", "no TSO of TiDB"),
        ('{"checkpoint-ts":5}', "no export of Dumpling"),
    ):
        with pytest.raises(BadConfig, match=why):
            export_moment(text)
