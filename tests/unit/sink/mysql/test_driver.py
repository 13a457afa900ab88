"""The driver's own connection."""

from __future__ import annotations

import pymysql
import pytest

from consumer.sink.mysql.server import driver
from consumer.sink.mysql.server.driver import Driver
from consumer.sink.mysql.settings import MySqlSettings


class ClosedMeanwhile:
    """A connection that another thread closes between a look at it and the call."""

    open = True

    def get_server_info(self) -> str:
        return "8.0.36"

    def close(self) -> None:
        raise pymysql.err.Error("Already closed")


def test_two_threads_may_give_the_connection_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "connect_to_server", lambda *_, **__: ClosedMeanwhile())
    own = Driver(MySqlSettings.from_uri("mysql://u@127.0.0.1:1/", name="n", time_zone="UTC"))
    assert own.flavor.name == "mysql"
    own.close()
    own.close()
