"""What a statement leaves to the server means the same here as upstream: names of indexes, character sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.results import RunResult
from tests.servers import MariaDb
from tests.support.build import ID
from tests.support.canal_json import row_line
from tests.support.feed import Feed, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

AB = (ID, Column("a", "INT"), Column("b", "INT"))
TEXT_KEY = (Column("k", "VARCHAR", length=9, nullable=False, is_pk=True),)
BARE = "CREATE TABLE `t` (`k` VARCHAR(9) PRIMARY KEY)"
COARSE = "ALTER DATABASE d COLLATE utf8mb4_general_ci"


class OnMariaDb:
    """A storage and a server that is kept equal to it."""

    def __init__(self, folder: Path, server: MariaDb) -> None:
        self.feed, self.server = Feed(folder / "storage"), server
        self._config = folder / "changefeed.toml"

    def settings(self, ignored: str = "", **flags: object) -> Settings:
        rules = f'[[consumer.ddl.rules]]\nkinds = ["{ignored}"]\naction = "ignore"\n' if ignored else ""
        self._config.write_text(rules)
        uris = {"upstream_uri": f"file://{self.feed.folder}?protocol=canal-json", "downstream_uri": self.server.url()}
        return load({**uris, **flags}, {}, str(self._config)).settings

    def once(self, checkpoint: int, ignored: str = "", **flags: object) -> RunResult:
        self.feed.checkpoint(checkpoint)
        return app.once(self.settings(ignored, **flags), Recorder(), InlineLoader())

    def alter(self, version: int, action: Action, what: str) -> None:
        self.feed.statement("d.t", version, action, f"ALTER TABLE `t` {what}", AB)

    def two_rows_of_one_a(self, version: int) -> None:
        """Upstream has no unique key on `a` any more when these come."""
        self.puts(version, *({"id": str(key), "a": "5", "b": "1"} for key in (1, 2)))

    def puts(self, version: int, *rows: dict[str, str | None]) -> None:
        lines = (row_line("INSERT", row, commit_ts=version + 1) + b"\r\n" for row in rows)
        self.feed.file("d.t", version, b"".join(lines))

    def keys(self) -> set[str]:
        return {str(row[2]) for row in self.server.execute("SHOW INDEX FROM d.t")}

    def count(self) -> int:
        return int(self.server.execute("SELECT COUNT(*) FROM d.t")[0][0])


@pytest.fixture
def replica(tmp_path: Path, fresh_mariadb: MariaDb) -> OnMariaDb:
    return OnMariaDb(tmp_path, fresh_mariadb)


def test_the_index_is_dropped_that_upstream_meant(replica: OnMariaDb) -> None:
    replica.feed.database("d", 5)
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`a` INT UNIQUE,`b` INT,KEY(`a`,`b`))"
    replica.feed.statement("d.t", 10, Action.CREATE_TABLE, create, AB)
    replica.alter(20, Action.DROP_INDEX, "DROP INDEX `a_2`")
    replica.two_rows_of_one_a(20)
    assert states(replica.once(30)) == {"d.t": "ok"}
    assert (replica.count(), replica.keys()) == (2, {"PRIMARY", "a"})


def test_an_index_that_mariadb_lacks_still_has_its_name(replica: OnMariaDb) -> None:
    replica.feed.database("d", 5)
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`a` INT,`b` INT,KEY `a`((`b`+1)))"
    replica.feed.statement("d.t", 10, Action.CREATE_TABLE, create, AB)
    replica.alter(15, Action.ADD_INDEX, "ADD UNIQUE(`a`)")
    replica.alter(20, Action.DROP_INDEX, "DROP INDEX `a_2`")
    replica.two_rows_of_one_a(20)
    assert states(replica.once(30)) == {"d.t": "ok"}
    assert (replica.count(), replica.keys()) == (2, {"PRIMARY"})


def test_a_foreign_keys_own_index_and_name_are_upstreams(replica: OnMariaDb) -> None:
    replica.feed.database("d", 5)
    for version, table in ((11, "t"), (12, "u")):
        create = f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY,`a` INT,`b` INT,FOREIGN KEY (`a`) REFERENCES `t`(`id`))"
        replica.feed.statement(f"d.{table}", version, Action.CREATE_TABLE, create, AB)
    replica.alter(15, Action.ADD_INDEX, "ADD UNIQUE(`a`)")
    replica.alter(20, Action.DROP_INDEX, "DROP INDEX `a`")
    replica.two_rows_of_one_a(20)
    replica.alter(25, Action.DROP_FOREIGN_KEY, "DROP FOREIGN KEY `fk_1`")
    replica.alter(26, Action.DROP_INDEX, "DROP INDEX `fk_1`")
    assert states(replica.once(24)) == {"d.t": "ok", "d.u": "ok"}
    assert (replica.count(), replica.keys()) == (2, {"PRIMARY", "fk_1"})
    assert states(replica.once(30)) == {"d.t": "ok", "d.u": "ok"}
    assert replica.keys() == {"PRIMARY"}
    assert "FOREIGN KEY" not in replica.server.execute("SHOW CREATE TABLE d.t")[0][1]


def test_an_index_that_was_ignored_once_keeps_its_name_taken(replica: OnMariaDb) -> None:
    replica.feed.database("d", 5)
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`a` INT,`b` INT)"
    replica.feed.statement("d.t", 10, Action.CREATE_TABLE, create, AB)
    replica.alter(12, Action.ADD_INDEX, "ADD INDEX(`a`)")
    replica.once(13, ignored="add-index")
    replica.alter(15, Action.ADD_INDEX, "ADD UNIQUE(`a`)")
    replica.alter(20, Action.DROP_INDEX, "DROP INDEX `a_2`, DROP INDEX `a`")
    replica.two_rows_of_one_a(20)
    assert states(replica.once(30)) == {"d.t": "ok"}
    assert (replica.count(), replica.keys()) == (2, {"PRIMARY"})


def test_an_index_that_should_be_there_is_not_passed_over(replica: OnMariaDb) -> None:
    replica.feed.database("d", 5)
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`a` INT,`b` INT,KEY `i`(`a`))"
    replica.feed.statement("d.t", 10, Action.CREATE_TABLE, create, AB)
    replica.once(13)
    replica.server.execute("DROP INDEX i ON d.t")
    replica.alter(20, Action.DROP_INDEX, "DROP INDEX `i`")
    result = replica.once(30)
    assert states(result) == {"d.t": "stopped"}
    assert "`i`" in str(result.tables[TableName("d", "t")].error)


@pytest.mark.parametrize("ignored", ["", "create-database", "modify-database-charset"])
@pytest.mark.parametrize("announced", ["", "CREATE DATABASE `d`", "CREATE DATABASE `d` COLLATE utf8mb4_general_ci"])
def test_a_bare_table_has_its_databases_collation_upstream(replica: OnMariaDb, announced: str, ignored: str) -> None:
    replica.server.execute("CREATE DATABASE d COLLATE utf8mb4_general_ci")
    if announced:
        replica.feed.database("d", 5, announced)
    if "general" in announced:
        replica.feed.database("d", 6, "ALTER DATABASE `d` COLLATE utf8mb4_bin", Action.MODIFY_SCHEMA_CHARSET)
    _create_with_rows(replica)
    replica.once(20, ignored)
    assert replica.count() == 3


def test_a_bare_table_takes_a_coarser_collation_from_upstream_only(replica: OnMariaDb) -> None:
    replica.feed.database("d", 5, "CREATE DATABASE `d` COLLATE utf8mb4_general_ci")
    replica.feed.statement("d.t", 10, Action.CREATE_TABLE, BARE, TEXT_KEY)
    replica.once(20)
    assert "utf8mb4_general_ci" in replica.server.execute("SHOW CREATE TABLE d.t")[0][1]


def test_a_bare_table_behind_a_snapshot(replica: OnMariaDb) -> None:
    replica.server.execute("CREATE DATABASE d COLLATE utf8mb4_general_ci")
    _create_with_rows(replica)
    replica.once(20, start_ts="7")
    assert replica.count() == 3


def test_a_resync_makes_the_table_as_it_was_made_first(replica: OnMariaDb) -> None:
    replica.feed.database("d", 5)
    _create_with_rows(replica)
    replica.feed.database("d", 20, COARSE.replace("DATABASE d", "DATABASE `d`"), Action.MODIFY_SCHEMA_CHARSET)
    replica.once(30)
    app.resync(replica.settings(), Recorder(), TableName("d", "t"), InlineLoader())
    assert replica.count() == 3


def _create_with_rows(replica: OnMariaDb) -> None:
    """Three keys upstream, two where case does not count."""
    replica.feed.statement("d.t", 10, Action.CREATE_TABLE, BARE, TEXT_KEY)
    replica.puts(10, *({"k": key} for key in ("a", "A", "b")))


def test_a_views_columns_have_no_type_in_the_schema_file(replica: OnMariaDb) -> None:
    replica.feed.database("d", 5)
    _create_with_rows(replica)
    query = "CREATE ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY INVOKER VIEW `v` AS SELECT `k` FROM `t`"
    replica.feed.statement("d.v", 20, Action.CREATE_VIEW, query, (Column("k", "UNSPECIFIED"),))
    assert states(replica.once(30)) == {"d.t": "ok", "d.v": "ok"}
    assert replica.server.execute("SELECT COUNT(*) FROM d.v") == [(3,)]


def test_a_name_alone_is_no_table_that_went_with_its_foreign_key(replica: OnMariaDb) -> None:
    """The view has the name of a table that it referred to, so the view comes behind its end."""
    key = "CREATE TABLE `c` (`id` INT PRIMARY KEY,`v` INT,FOREIGN KEY (`v`) REFERENCES `p`(`id`))"
    for number, database in enumerate("de"):
        replica.feed.database(database, 5 + number)
    replica.feed.create("d.p", 10)
    replica.feed.statement("d.c", 11, Action.CREATE_TABLE, key)
    replica.feed.drop("d.c", 12)
    replica.feed.drop("d.p", 13)
    replica.feed.create("e.c", 14)
    view = "CREATE ALGORITHM = UNDEFINED SQL SECURITY INVOKER VIEW `d`.`p` AS SELECT `c`.`id` FROM `c`"
    replica.feed.statement("d.p", 20, Action.CREATE_VIEW, view, (Column("id", "UNSPECIFIED"),))
    assert replica.once(30).exit_code == 0
    assert replica.server.execute("SELECT COUNT(*) FROM d.p") == [(0,)]


@pytest.mark.parametrize(
    ("before", "value", "after", "wanted"),
    [
        ("DATETIME(6)", "2024-01-01 10:00:00.600000", "DATETIME", "2024-01-01 10:00:01"),
        ("DATETIME(6)", "2024-12-31 23:59:59.999500", "DATETIME(3)", "2025-01-01 00:00:00.000"),
        ("TIME(3)", "10:00:00.500", "TIME", "10:00:01"),
    ],
)
def test_fractions_are_rounded(replica: OnMariaDb, before: str, value: str, after: str, wanted: str) -> None:
    def column(kind: str) -> Column:
        return Column("c", kind.partition("(")[0], scale=int(kind.partition("(")[2].rstrip(")") or 0))

    replica.feed.database("d", 5)
    create = f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`c` {before})"
    replica.feed.statement("d.t", 10, Action.CREATE_TABLE, create, (ID, column(before)))
    replica.puts(10, {"id": "1", "c": value})
    modify = f"ALTER TABLE `t` MODIFY COLUMN `c` {after}"
    replica.feed.statement("d.t", 20, Action.MODIFY_COLUMN, modify, (ID, column(after)))
    assert states(replica.once(30)) == {"d.t": "ok"}
    assert replica.server.execute("SELECT CAST(c AS CHAR) FROM d.t") == [(wanted,)]


def test_a_new_json_column_that_is_not_null_holds_json_null(replica: OnMariaDb) -> None:
    replica.feed.database("d", 5)
    replica.feed.statement("d.t", 10, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY)", (ID,))
    replica.puts(10, {"id": "1"})
    json = Column("j", "JSON", nullable=False)
    replica.feed.statement("d.t", 20, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `j` JSON NOT NULL", (ID, json))
    assert states(replica.once(30)) == {"d.t": "ok"}
    assert replica.server.execute("SELECT j FROM d.t") == [("null",)]
    assert "DEFAULT 'null'" not in replica.server.execute("SHOW CREATE TABLE d.t")[0][1]


def test_an_error_that_is_no_refusal_leaves_a_statement_where_it_is(
    replica: OnMariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first part has run, and nobody could record that."""
    replica.feed.database("d", 5)
    replica.feed.statement("d.t", 10, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY)", (ID,))
    json = Column("j", "JSON", nullable=False)
    replica.feed.statement("d.t", 20, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `j` JSON NOT NULL", (ID, json))

    def fail(*_: object) -> None:
        raise BadConfig("this user may not write the progress any more")

    with monkeypatch.context() as patch:
        patch.setattr("consumer.sink.mysql.statements.planned.Records.save", fail)
        assert states(replica.once(30)) == {"d.t": "stopped"}
    assert states(replica.once(30)) == {"d.t": "ok"}
    assert "DEFAULT 'null'" not in replica.server.execute("SHOW CREATE TABLE d.t")[0][1]
