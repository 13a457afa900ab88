"""The target beside the storage."""

from __future__ import annotations

import pymysql
from pymysql.cursors import SSCursor

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.model.check import VerifyResult
from tests.bench.decode import parse_alone
from tests.bench.shapes.bulk import Inserts
from tests.support.observers import Recorder

_FETCHED = 20_000


class Verified(Inserts):
    """`verify` of a table that is equal. The limit reads all that it must: it selects the table with the same client
    library, and parses the files with all cores."""

    name, title = "V", "`verify` of 1 M rows, beside SELECT and a parse"
    reach = None

    def build(self) -> int:
        size = super().build()
        self.server.drop_all()
        self.apply(self.storage)
        return size

    def before_round(self) -> None: ...

    def before_limit(self) -> None: ...

    def round(self) -> None:
        result = self.verified()
        if [table.state for table in result.tables] != ["equal"]:
            raise SystemExit(f"shape {self.name}: {result.tables}")

    def limit(self) -> None:
        with pymysql.connect(host="127.0.0.1", port=self.server.port, user="root", cursorclass=SSCursor) as connection:
            connection.decoders = {}
            with connection.cursor() as cursor:
                cursor.execute("SELECT * FROM bench.t")
                while cursor.fetchmany(_FETCHED):
                    pass
        parse_alone(self.storage, use_threads=True)

    def verified(self, show: int = 10) -> VerifyResult:
        return app.verify(self.settings, Recorder(), show=show, loader=self.loader)

    @property
    def settings(self) -> Settings:
        flags = {"downstream_uri": self.downstream, "tz": "UTC", "upstream_uri": self.upstream(self.storage)}
        return load(flags, {}, str(self.config)).settings
