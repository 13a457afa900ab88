"""What the sink sees in the target's tables, and what it makes of the rows that are to go there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from consumer.errors import CannotBeExact, ConsumerError, SchemaDrift, TableMissing
from consumer.model.columns import Column
from consumer.model.load import LoadTarget, Purpose, TableLoad
from consumer.model.names import TableName
from consumer.sink.mysql.sink import MySqlSink
from consumer.sink.mysql.tables.describe import describe_tables
from consumer.sink.mysql.target import MySqlTarget, mysql_target
from consumer.target import LoadRequest
from tests.integration.mysql.steps import settings
from tests.servers import MariaDb

ID = Column("id", "INT", length=11, nullable=False, is_pk=True)
V = Column("v", "VARCHAR", length=9)
T = TableName("d", "t")


def prepared(
    server: MariaDb,
    *columns: Column,
    table: TableName = T,
    unique: tuple[str, ...] = (),
    indexes: frozenset[str | frozenset[str]] | None = None,
    purpose: Purpose = Purpose.LOAD_IN_PARTS,
    known_index_names: frozenset[str] = frozenset(),
) -> LoadTarget | ConsumerError:
    sink = MySqlSink(settings(server))
    told = frozenset(frozenset([name]) for name in unique)
    load = TableLoad(table, purpose=purpose)
    request = LoadRequest(load, columns, indexes=indexes, known_unique=told, known_index_names=known_index_names)
    [answer] = sink.prepare([request])
    sink.close()
    return answer


def target(server: MariaDb, *columns: Column, **asked: Any) -> LoadTarget:
    answer = prepared(server, *columns, **asked)
    assert isinstance(answer, LoadTarget), answer
    return answer


def create(server: MariaDb, body: str) -> None:
    server.execute("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", f"CREATE TABLE d.t ({body})")


def test_columns_come_in_the_targets_order_without_generated_and_hidden_ones(fresh_mariadb: MariaDb) -> None:
    create(
        fresh_mariadb,
        "V VARCHAR(9), id INT PRIMARY KEY, g INT AS (id + 1) VIRTUAL, s INT AS (id) STORED, "
        "e ENUM('a','it''s'), UNIQUE (v)",
    )
    sent = (ID, V, Column("g", "INT"), Column("s", "INT"), Column("e", "ENUM"), Column("_V$_x_0", "JSON"))
    got = target(fresh_mariadb, *sent, unique=("v",))
    assert got.names == ("V", "id", "e")
    assert got.columns == (V, ID, replace(sent[4], elements=("a", "it's")))
    assert got.virtual == ("g",)
    assert (got.key, got.in_one_call) == ((1,), False)
    settings = mysql_target(got)
    assert [(column.data_type, column.type, column.collation) for column in settings.columns] == [
        ("varchar", "varchar(9)", "utf8mb4_bin"),
        ("int", fresh_mariadb.integer, ""),
        ("enum", "enum('a','it''s')", "utf8mb4_bin"),
    ]
    assert settings.server.flavor == fresh_mariadb.name.lower()
    server = replace(settings.server, local_infile=True)  # whether it logs statements is its own
    assert settings == MySqlTarget(server, T, settings.columns, secondary_unique=True, padded=(0,))


@pytest.mark.parametrize("label", ["a", "it's", "a,b", "back\\slash", "日本", "line\nfeed", "(')", ""])
def test_labels_of_an_enum(label: str, fresh_mariadb: MariaDb) -> None:
    quoted = label.replace("\\", "\\\\").replace("'", "''")
    create(fresh_mariadb, f"id INT PRIMARY KEY, e ENUM('first', '{quoted}')")
    assert target(fresh_mariadb, ID, Column("e", "ENUM")).columns[1].elements == ("first", label)


def test_the_targets_own_labels_come_before_those_of_the_schema_file(fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, "id INT PRIMARY KEY, e ENUM('b', 'a')")
    assert target(fresh_mariadb, ID, Column("e", "ENUM", elements=("a", "b"))).columns[1].elements == ("b", "a")


def test_labels_that_the_server_cannot_show_stay_unknown(fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, "id INT PRIMARY KEY, e ENUM('first', '🙂')")
    assert target(fresh_mariadb, ID, Column("e", "ENUM")).columns[1].elements == ()


def test_the_key_without_a_primary_key(fresh_mariadb: MariaDb) -> None:
    create(
        fresh_mariadb,
        "a INT NOT NULL, b INT NOT NULL, c INT NOT NULL, d INT, p VARCHAR(9) NOT NULL, "
        "UNIQUE k0 (d), UNIQUE k1 (p(2)), UNIQUE k2 (a, b), UNIQUE k3 (c), UNIQUE k4 (b)",
    )
    columns = [Column(name, "INT", nullable=name == "d") for name in "abcd"]
    got = target(fresh_mariadb, *columns, Column("p", "VARCHAR", nullable=False))
    assert [got.names[position] for position in got.key] == ["c"]


def test_no_key_at_all(fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, "a INT, UNIQUE (a)")
    assert target(fresh_mariadb, Column("a", "INT")).key == ()


def test_a_key_that_upstream_does_not_have_is_no_handle(fresh_mariadb: MariaDb) -> None:
    """As where upstream's unique key has a WHERE, and somebody made the table by hand without it."""
    create(fresh_mariadb, "a INT NOT NULL, b INT NOT NULL, UNIQUE uk (a)")
    columns = [Column(name, "INT", nullable=False) for name in "ab"]
    answer = prepared(fresh_mariadb, *columns, indexes=frozenset({"other"}))
    assert isinstance(answer, CannotBeExact)
    assert "a unique key `uk` on `a`, which upstream does not have" in answer.message
    assert target(fresh_mariadb, *columns, indexes=frozenset({"uk"})).key == ()
    known = target(fresh_mariadb, *columns, indexes=frozenset({"uk", frozenset({"a"})}), unique=("a",))
    assert known.key == (0,)
    # Of a table that is older than its statements they tell no index, or what they tell of this one's name decides.
    assert target(fresh_mariadb, *columns).key == (0,)
    assert target(fresh_mariadb, *columns, known_index_names=frozenset({"uk"})).key == ()
    assert target(fresh_mariadb, *columns, known_index_names=frozenset({"uk"}), unique=("a",)).key == (0,)


def test_no_key_needs_transactions(fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, "a INT")
    fresh_mariadb.execute("ALTER TABLE d.t ENGINE = MyISAM")
    assert isinstance(prepared(fresh_mariadb, Column("a", "INT")), CannotBeExact)


def test_a_primary_key_that_the_target_lacks(fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, "id INT, v VARCHAR(9), UNIQUE (id)")
    answer = prepared(fresh_mariadb, ID, V)
    assert isinstance(answer, CannotBeExact)
    assert "`id`" in answer.message


@pytest.mark.parametrize(
    ("declared", "coarse"),
    [
        ("VARCHAR(9) COLLATE utf8mb4_bin", False),
        ("VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin", False),
        ("VARCHAR(9) COLLATE nopad", False),
        ("VARBINARY(9)", False),
        ("ENUM('a','b') COLLATE utf8mb4_general_ci", False),
        ("VARCHAR(9) COLLATE utf8mb4_general_ci", True),
        ("CHAR(9) COLLATE utf8mb4_unicode_ci", True),
    ],
)
def test_keys_that_the_target_compares_coarsely(declared: str, coarse: bool, fresh_mariadb: MariaDb) -> None:
    declared = declared.replace("nopad", fresh_mariadb.nopad_collation)
    create(fresh_mariadb, f"k {declared} NOT NULL, PRIMARY KEY (k)")
    kind = declared.partition("(")[0]
    k = Column("k", kind, length=9, nullable=False, is_pk=True)
    assert mysql_target(target(fresh_mariadb, k)).checked is coarse
    assert target(fresh_mariadb, k, purpose=Purpose.LOAD_AT_ONCE).in_one_call is coarse


def test_a_prefix_key_is_coarse(fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, "k VARCHAR(9) NOT NULL, PRIMARY KEY (k(3))")
    found = target(fresh_mariadb, Column("k", "VARCHAR", length=9, nullable=False, is_pk=True))
    assert mysql_target(found).checked


def test_a_coarse_key_is_compared_by_its_own_column(fresh_mariadb: MariaDb) -> None:
    """Servers tell names apart that are equal to Python's casefold."""
    body = "id INT PRIMARY KEY, `straße` VARCHAR(9) COLLATE utf8mb4_{}, strasse VARCHAR(9), UNIQUE (`straße`)"
    create(fresh_mariadb, body.format("general_ci"))
    sent = (ID, replace(V, name="straße"), replace(V, name="strasse"))
    assert mysql_target(target(fresh_mariadb, *sent, unique=("straße", "strasse"))).checked
    fresh_mariadb.execute("DROP DATABASE d")
    create(fresh_mariadb, body.format("bin"))
    assert mysql_target(target(fresh_mariadb, *sent, unique=("strasse",))).checked
    assert not mysql_target(target(fresh_mariadb, *sent, unique=("straße",))).checked


@pytest.mark.parametrize(
    ("key", "unique", "checked"),
    [
        ("UNIQUE (v)", ("v",), False),
        ("UNIQUE (v)", (), True),
        ("UNIQUE (v, id)", (), False),
        ("UNIQUE (n)", ("n",), False),
        ("UNIQUE (n)", (), True),
        ("UNIQUE (v(3))", ("v",), True),
        ("g INT AS (n % 2) VIRTUAL UNIQUE", ("g",), True),
        ("KEY (n)", (), False),
    ],
)
def test_which_keys_are_proven(key: str, unique: tuple[str, ...], checked: bool, fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, f"id INT PRIMARY KEY, v VARCHAR(9), n INT, {key}")
    found = target(fresh_mariadb, ID, V, Column("n", "INT"), unique=unique)
    assert (mysql_target(found).checked, found.in_one_call) == (checked, False)


def test_columns_that_do_not_meet(fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, "id INT PRIMARY KEY, extra INT, more INT")
    lacks = prepared(fresh_mariadb, ID, V)
    assert isinstance(lacks, SchemaDrift)
    assert "lacks the rows' columns `v`" in lacks.message


def test_a_missing_table_comes_with_its_create(fresh_mariadb: MariaDb) -> None:
    columns = (
        ID,
        Column("n", "DECIMAL", unsigned=True, length=12, scale=3),
        Column("w", "DATETIME", scale=6),
        Column("a`b", "VAR_STRING", length=5, nullable=False),
        Column("e", "ENUM", elements=("x", "it's")),
        Column("u", "BIGINT", unsigned=True, length=20),
        Column("t", "TEXT", length=65535),
        Column("_V$_x_0", "JSON"),
    )
    answer = prepared(fresh_mariadb, *columns)
    assert isinstance(answer, TableMissing)
    database, statement = answer.hint.partition("\n")[2].split(";\n")[:2]
    fresh_mariadb.execute(database, statement)
    shown = fresh_mariadb.execute(
        "SELECT column_name, REGEXP_REPLACE(column_type, 'int[(][0-9]+[)]', 'int'), is_nullable, column_key "
        "FROM information_schema.columns "
        "WHERE table_schema = 'd' ORDER BY ordinal_position"
    )
    assert shown == [
        ("id", "int", "NO", "PRI"),
        ("n", "decimal(12,3) unsigned", "YES", ""),
        ("w", "datetime(6)", "YES", ""),
        ("a`b", "varchar(5)", "NO", ""),
        ("e", "enum('x','it''s')", "YES", ""),
        ("u", "bigint unsigned", "YES", ""),
        ("t", "text", "YES", ""),
    ]


def test_triggers_and_views_stop_the_table(fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, "id INT PRIMARY KEY")
    fresh_mariadb.execute(
        "CREATE TRIGGER d.g BEFORE INSERT ON d.t FOR EACH ROW SET NEW.id = 1", "CREATE VIEW d.w AS SELECT 1 id"
    )
    assert isinstance(prepared(fresh_mariadb, ID), CannotBeExact)
    assert isinstance(prepared(fresh_mariadb, ID, table=TableName("d", "w")), CannotBeExact)
    allowing = MySqlSink(replace(settings(fresh_mariadb), allow_triggers=True))
    assert isinstance(allowing.prepare([LoadRequest(TableLoad(T), (ID,))])[0], LoadTarget)
    allowing.close()


ODD = [
    "with space",
    "back`tick",
    "quote'\"",
    "dot.dot",
    "日本語",
    "percent%s",
    "slash/x",
    "SELECT",
    "1234",
    "Case",
    "case",
]


@pytest.mark.parametrize("together", [True, False])
def test_odd_names(together: bool, fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE DATABASE `o'd``d%s`")
    names = [TableName("o'd`d%s", name) for name in ODD]
    more = [TableName("o'd`d%s", f"none{number}") for number in range(30 if together else 0)]
    for number, name in enumerate(ODD):
        quoted = name.replace("`", "``")
        fresh_mariadb.execute(f"CREATE TABLE `o'd``d%s`.`{quoted}` (`c{number}` INT PRIMARY KEY)")
    connection = fresh_mariadb.connect()
    found = describe_tables(connection.cursor(), [*names, *more])
    connection.close()
    assert {name.table: table.columns[0].name for name, table in found.items()} == {
        name: f"c{number}" for number, name in enumerate(ODD)
    }
    assert all(table.name == name for name, table in found.items())


def test_five_hundred_tables(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE DATABASE d")
    fresh_mariadb.execute(*(f"CREATE TABLE d.t{n} (id INT PRIMARY KEY, v VARCHAR(9) UNIQUE)" for n in range(500)))
    sink = MySqlSink(settings(fresh_mariadb))
    answers = sink.prepare([LoadRequest(TableLoad(TableName("d", f"t{number}")), (ID, V)) for number in range(500)])
    assert all(isinstance(answer, LoadTarget) for answer in answers)
    sink.close()


def test_names_that_only_look_alike_are_two_columns(fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, "id INT PRIMARY KEY, `straße` INT, `strasse` INT, `ΑΣ` INT, UNIQUE (`STRASSE`, `ασ`)")
    sent = (ID, Column("strasse", "INT"), Column("STRAßE", "INT"), Column("ας", "INT"))
    answer = prepared(fresh_mariadb, *sent)
    assert isinstance(answer, SchemaDrift), "ΑΣ and ας are two names: the sigma at the end of a word is another letter"
    got = target(fresh_mariadb, *sent[:3], Column("ασ", "INT"))
    assert got.names == ("id", "straße", "strasse", "ΑΣ")
    assert [column.name for column in got.columns] == ["id", "STRAßE", "strasse", "ασ"]


def test_a_name_that_the_server_cannot_spell_is_only_that_tables_matter(fresh_mariadb: MariaDb) -> None:
    create(fresh_mariadb, "id INT PRIMARY KEY, v VARCHAR(9)")
    odd = TableName("d", "😀")
    sink = MySqlSink(settings(fresh_mariadb))
    others = [TableName("d", f"none{number}") for number in range(30)]
    requests = [LoadRequest(TableLoad(name), (ID, V)) for name in (*others[:7], odd, *others[7:], T)]
    answers = dict(zip([request.table for request in requests], sink.prepare(requests), strict=True))
    assert isinstance(answers.pop(T), LoadTarget)
    assert {type(answer) for answer in answers.values()} == {TableMissing}
    assert list(sink.has_rows([odd, T])) == []
    sink.close()
