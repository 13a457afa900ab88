"""The mark for changes that a changefeed of the target leaves out: only TiDB has it."""

from __future__ import annotations

import pytest

from consumer.errors import BadConfig
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.settings import MySqlSettings
from tests.servers import SqlServer


def test_a_server_without_marks_is_named(mysql: SqlServer) -> None:
    uri = mysql.url()
    with pytest.raises(BadConfig, match="only TiDB has marks for changes") as refused:
        connect_to_server(MySqlSettings.from_uri(f"{uri}?write-source=1", name="c"), "dml")
    assert refused.value.hint == "leave write-source out of --downstream-uri"
    connect_to_server(MySqlSettings.from_uri(uri, name="c"), "dml").close()
