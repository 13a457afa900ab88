"""A second server, whose rows a target is compared with. It is only read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from consumer.errors import BadConfig, ConsumerError, TableError
from consumer.model.load import LoadTarget
from consumer.model.names import TableName
from consumer.sink import OTHERS
from consumer.sink.mysql.server.driver import Driver
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.sink import MySqlSink
from consumer.sink.mysql.tables.alike import check_alike
from consumer.sink.mysql.tables.describe import base_tables_in
from consumer.target import ArrowTable, Comparer, LoadRequest, OtherServer, TargetOptions

_TOO_OLD = ("(error 8055)", "(error 9006)")


def open_other(uri: str, options: TargetOptions) -> OtherServer:
    """target.OtherServer, not yet reached. Raises BadConfig."""
    settings = MySqlSettings.from_uri(uri, name=options.name, time_zone=options.time_zone)
    return MySqlOther(replace(settings, allow_triggers=True))  # nothing is written that one could change


class MySqlOther:
    """target.OtherServer. A moment has connections of its own."""

    def __init__(self, settings: MySqlSettings) -> None:
        self._settings = settings
        self._sinks: dict[int, MySqlSink] = {}

    @property
    def address(self) -> str:
        return self._settings.address

    @property
    def has_past(self) -> bool:
        driver = Driver(self._settings)
        try:
            with in_its_words():
                return driver.flavor.name == "tidb"
        finally:
            driver.close()

    def is_at(self, uri: str) -> bool:
        if urlsplit(uri).scheme not in OTHERS:
            return False
        own, other = (_identity(one) for one in (self._settings, MySqlSettings.from_uri(uri, name=self._settings.name)))
        return own == other

    def prepare(self, request: LoadRequest, moment: int) -> LoadTarget | ConsumerError:
        try:
            with in_its_words():
                (answer,) = self._at(moment).prepare([request])
                if isinstance(answer, ConsumerError):
                    raise answer
                check_alike(answer)
                return answer
        except TableError as error:
            return error

    def comparer(self, target: LoadTarget, moment: int) -> Comparer:
        with in_its_words():
            return _Reworded(self._at(moment).comparer(target))

    def tables_in(self, database: str, moment: int) -> Collection[TableName]:
        driver = Driver(replace(self._settings, as_of=moment))
        try:
            with in_its_words():
                return driver.read(lambda cursor: base_tables_in(cursor, database))
        finally:
            driver.close()

    def close(self) -> None:
        for sink in self._sinks.values():
            sink.close()

    def _at(self, moment: int) -> MySqlSink:
        if moment not in self._sinks:
            self.close()  # tables come in the order of their names, and most are at one moment
            self._sinks = {moment: MySqlSink(replace(self._settings, as_of=moment))}
        return self._sinks[moment]


def _identity(settings: MySqlSettings) -> tuple[str, ...]:
    driver = Driver(settings)
    try:
        with driver.cursor() as cursor:
            cursor.execute("SELECT @@hostname, @@port, @@datadir, VERSION()")
            return tuple(map(str, cursor.fetchone()))
    finally:
        driver.close()


@dataclass(frozen=True, slots=True)
class _Reworded:
    """target.Comparer whose errors speak of the other server."""

    comparer: Comparer

    @property
    def ranges(self) -> int:
        return self.comparer.ranges

    def expected(self, rows: ArrowTable) -> ArrowTable:
        return self.comparer.expected(rows)

    def held(self, number: int) -> Iterator[ArrowTable]:
        with in_its_words():
            yield from self.comparer.held(number)

    def changes(self, rows: ArrowTable) -> ArrowTable:
        return self.comparer.changes(rows)


@contextmanager
def in_its_words() -> Iterator[None]:
    """What is raised speaks of a target, which this server is not."""
    try:
        yield
    except ConsumerError as error:
        error.message = error.message.replace("the target", "the other server")
        error.hint = error.hint.replace("--downstream-uri", "--against").replace("the target", "the other server")
        if isinstance(error, TableError):
            error.hint = "make the two tables alike, or leave this one out with --table"
        if any(number in error.message for number in _TOO_OLD):
            raise BadConfig(
                f"the other server no longer shows its tables at the target's watermark: {error.message}",
                hint="run `once` and verify right after it, or set a longer tidb_gc_life_time there",
            ) from error
        raise
