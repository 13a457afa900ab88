"""Random tables and views, as templates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from consumer.model.actions import Action
from consumer.model.names import TableName
from tests.support.random_ddl.definitions import COLUMNS, Definitions
from tests.support.random_ddl.events import Manner
from tests.support.random_ddl.index_names import EXPRESSION, free_name
from tests.support.random_ddl.original import Index, quoted
from tests.support.random_ddl.proposal import Body, Proposal, Tables, base_tables

KEYS = (
    "`id` INT{auto} PRIMARY KEY",
    "`id` INT NOT NULL{auto},{columns},PRIMARY KEY (`id`) /*T![clustered_index] NONCLUSTERED */",
    "`id` BIGINT NOT NULL,`id2` VARCHAR(5) NOT NULL,PRIMARY KEY (`id`, `id2`) /*T![clustered_index] CLUSTERED */",
    "`id` INT NOT NULL,UNIQUE `u` (`id`)",
    "`id` INT NOT NULL,`id2` VARCHAR(5) NOT NULL DEFAULT _UTF8MB4'q',UNIQUE KEY (`id2`, `id`)",
)
KEYLESS = "`id` INT"
RANGES = " PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (3),PARTITION `P1` VALUES LESS THAN (6)"
PARTITIONED = (
    f"{RANGES})",
    f"{RANGES},PARTITION `p``2` VALUES LESS THAN (20))",
    " PARTITION BY HASH (`id`) PARTITIONS 2",
)


@dataclass(frozen=True)
class Creations:
    random: Random
    manner: Manner

    def table_or_view(self, name: TableName, tables: Tables) -> Proposal:
        likely = base_tables(tables)
        if likely and self.random.random() < 0.2:
            return self.view(name, tables)
        if likely and self.random.random() < 0.2:
            source = self.random.choice(likely)
            primary = any(index.name == "PRIMARY" for index in tables[source].shape.indexes)
            if primary or self.manner.commit_ts:  # another key is in doubt where the text does not tell the database
                return self._like(name, source, tables)
        bodies = [table.body for table in tables.values() if table.body and table.partitions]
        if bodies and self.random.random() < 0.5:  # one that can exchange its rows with a partition
            body, rest = self.random.choice(bodies), ""
        else:
            body = self._body()
            rest = self.random.choice(PARTITIONED) if self.manner.partitions and self.random.random() < 0.4 else ""
        some = self.random.choice(("", "", "IF NOT EXISTS "))
        options = self.random.choice(
            (
                "",
                " ENGINE=InnoDB DEFAULT CHARSET=UTF8MB4 COLLATE=UTF8MB4_BIN",
                " COLLATE utf8mb4_general_ci",
                " COMMENT='a, `b`; c'",
            )
        )
        create = f"CREATE TABLE {some}{{own}} "
        return Proposal(
            Action.CREATE_TABLE, f"{create}({body.text}){options}{rest}", name, {"own": name}, body=body,
            direct=f"{create}({body.direct}){options}{rest}",
        )  # fmt: skip

    def _like(self, name: TableName, other: TableName, tables: Tables) -> Proposal:
        some = self.random.choice(("", "IF NOT EXISTS "))
        source, names = tables[other], {"own": name, "other": other}
        template = f"CREATE TABLE {some}{{own}} LIKE {{other}}"
        return Proposal(Action.CREATE_TABLE, template, name, names, body=source.body)

    def _body(self) -> Body:
        names = self.random.sample(COLUMNS, self.random.randint(1, 3))
        columns = list(map(Definitions(self.random).column, names))
        key = self.random.choice((*KEYS, KEYS[0], *([KEYLESS] if self.manner.keyless else [])))
        key = key.replace("{auto}", self.random.choice(("", "", " AUTO_INCREMENT")))
        if self.random.random() < 0.2:  # named so that no statement changes it
            columns.append(f"`id3` INT GENERATED ALWAYS AS(`id`+1) {self.random.choice(('VIRTUAL', 'STORED'))}")
        indexes = self.random.choice(
            ([], [], [("INDEX", "", quoted(names[0]))], [("UNIQUE KEY", "by", f"{quoted(names[-1])},`id`")])
        )
        if self.random.random() < 0.15:
            indexes.append((self.random.choice(("KEY", "KEY", "UNIQUE")), "", EXPRESSION))
        unique = names[0] if self.random.random() < 0.15 else ""
        told, direct, left_out = self._indexes(key, indexes, unique)
        spelled = [f"{columns[0]} UNIQUE" if unique else columns[0], *columns[1:]]
        text, own = (_with_columns(key, listed) for listed in (spelled, columns))
        return Body(text + told, own + direct, left_out, "NONCLUSTERED" in key or "PRIMARY" not in key)

    def _indexes(
        self, key: str, indexes: Sequence[tuple[str, str, str]], unique: str
    ) -> tuple[str, str, tuple[Index, ...]]:
        """Of a new table: its indexes beside the key in upstream's text, and on the original, those of upstream alone.
        TiDB names what stands behind the columns first, then the column that is `unique`."""
        told, direct, left_out = "", "", []
        given = re.findall(r"UNIQUE `(\w+)`", key) + [name for _, name, _ in indexes if name]
        unnamed = ["`id2`,`id`"] if "UNIQUE KEY (" in key else []
        taken = {name.lower() for name in [*given, *(free_name(parts, given) for parts in unnamed)]}
        for kind, name, parts in indexes:
            told += f",{kind} {quoted(name) + ' ' if name else ''}({parts})"
            name = name or free_name(parts, taken)
            taken.add(name.lower())
            if parts == EXPRESSION and not self.manner.expressions:
                left_out.append(Index(name, kind != "KEY", (), whole=False, expression=True))
            else:
                direct += f",{kind} {quoted(name)} ({parts})"
        if unique:
            direct += f",UNIQUE KEY {quoted(free_name(quoted(unique), taken))} ({quoted(unique)})"
        return told, direct, tuple(left_out)

    def view(self, name: TableName, tables: Tables, verb: str = "CREATE ") -> Proposal:
        other, third = (self.random.choice(base_tables(tables)) for _ in range(2))
        column = quoted(self.random.choice(tables[other].shape.columns).name)
        body = self.random.choice(
            (
                f"SELECT {column} FROM {{other}}",
                f"SELECT {column},`id`+1 AS `from` FROM {{other}} AS `x` WHERE `x`.`id`>1",
                "SELECT `x`.`id`,(SELECT MAX(`id`) FROM {third}) AS `m` FROM ({other} AS `x`) JOIN {third} AS `y`"
                " ON `x`.`id`=`y`.`id`",
                f"SELECT {{other}}.{column} FROM {{other}} UNION ALL SELECT 1",
            )
        )
        begin = verb + "ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW {own} AS "
        return Proposal(Action.CREATE_VIEW, begin + body, name, {"own": name, "other": other, "third": third})


def _with_columns(key: str, columns: Sequence[str]) -> str:
    listed = ",".join(columns)
    return key.replace("{columns}", listed) if "{columns}" in key else f"{key},{listed}"
