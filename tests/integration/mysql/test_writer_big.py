"""Values near the greatest packet that the server takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from consumer.errors import RowRefused
from consumer.model.columns import Column
from consumer.model.steps import Window
from consumer.sink.mysql.rows.writer import MySqlWriter
from tests.integration.mysql.writing import EPOCH, by_statements, changes, counted, make_target, settings_of, write
from tests.servers import MariaDb

PACKET = 8 << 20
BIG = bytes(range(256)) * (5 << 12)
"""5 MiB: more than a packet in hexadecimal digits."""
COLUMNS = [Column("id", "INT", is_pk=True, nullable=False), Column("b", "LONGBLOB")]


@pytest.fixture
def server(fresh_mariadb: MariaDb) -> Iterator[MariaDb]:
    ((before,),) = fresh_mariadb.execute("SELECT @@max_allowed_packet")
    fresh_mariadb.execute(f"SET GLOBAL max_allowed_packet = {PACKET}")
    yield fresh_mariadb
    fresh_mariadb.execute(f"SET GLOBAL max_allowed_packet = {before}")


def held(server: MariaDb) -> list[tuple[object, ...]]:
    """Each row's id, and whether it holds BIG."""
    big = f"REPEAT(UNHEX('{bytes(range(256)).hex()}'), {5 << 12})"
    return server.execute(f"SELECT id, SHA2(b, 256) = SHA2({big}, 256) FROM db.t ORDER BY id")


@pytest.mark.parametrize("infile", [True, False])
def test_a_blob_of_more_than_half_a_packet(server: MariaDb, infile: bool) -> None:
    target = make_target(server, COLUMNS, "id INT PRIMARY KEY, b LONGBLOB")
    write(server, target if infile else by_statements(target), changes(target, puts=[("1", BIG), ("2", b"x")]))
    assert held(server) == [(1, 1), (2, 0)]


def test_a_row_that_no_packet_holds_is_told_with_its_key(server: MariaDb) -> None:
    target = make_target(server, COLUMNS, "id INT PRIMARY KEY, b LONGBLOB")
    with pytest.raises(RowRefused, match=rf"id='7'.*max_allowed_packet is {PACKET}"):
        write(server, by_statements(target), changes(target, puts=[("7", b"'" * PACKET)]))


def test_a_blob_of_more_than_half_a_packet_in_a_table_with_no_key(server: MariaDb) -> None:
    columns = [Column("id", "INT"), Column("b", "LONGBLOB")]
    target = make_target(server, columns, "id INT, b LONGBLOB")
    with MySqlWriter(settings_of(server), EPOCH).session() as session:
        session.write_multiset(target, counted(target, [(2, ("1", BIG)), (1, ("2", BIG[:-1]))]), Window(1, 2))
        session.write_multiset(target, counted(target, [(-1, ("1", BIG)), (-1, ("2", BIG[:-1]))]), Window(2, 3))
        assert held(server) == [(1, 1)]
        with pytest.raises(RowRefused, match=f"max_allowed_packet is {PACKET}"):
            session.write_multiset(target, counted(target, [(-1, ("1", b"'" * PACKET))]), Window(3, 4))
