"""Random tables and views, as templates."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from consumer.model.actions import Action
from consumer.model.names import TableName
from tests.support.random_ddl.definitions import COLUMNS, Definitions
from tests.support.random_ddl.original import quoted
from tests.support.random_ddl.proposal import Proposal, Tables, base_tables

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
    """`keyless`: tables without a key are replicated; `partitions`: some tables are partitioned."""

    random: Random
    keyless: bool
    partitions: bool

    def table_or_view(self, name: TableName, tables: Tables) -> Proposal:
        likely = base_tables(tables)
        if likely and self.random.random() < 0.2:
            return self.view(name, tables)
        if likely and self.random.random() < 0.2:
            return self._like(name, self.random.choice(likely), tables)
        bodies = [table.body for table in tables.values() if table.body and table.partitions]
        if bodies and self.random.random() < 0.5:  # one that can exchange its rows with a partition
            body, nonclustered, rest = self.random.choice(bodies), False, ""
        else:
            body, nonclustered = self._body()
            rest = self.random.choice(PARTITIONED) if self.partitions and self.random.random() < 0.4 else ""
        some = self.random.choice(("", "", "IF NOT EXISTS "))
        options = self.random.choice(
            (
                "",
                " ENGINE=InnoDB DEFAULT CHARSET=UTF8MB4 COLLATE=UTF8MB4_BIN",
                " COLLATE utf8mb4_general_ci",
                " COMMENT='a, `b`; c'",
            )
        )
        template = f"CREATE TABLE {some}{{own}} ({body}){options}{rest}"
        return Proposal(Action.CREATE_TABLE, template, name, {"own": name}, body=body, nonclustered=nonclustered)

    def _like(self, name: TableName, other: TableName, tables: Tables) -> Proposal:
        some = self.random.choice(("", "IF NOT EXISTS "))
        source, names = tables[other], {"own": name, "other": other}
        template = f"CREATE TABLE {some}{{own}} LIKE {{other}}"
        return Proposal(Action.CREATE_TABLE, template, name, names, (), source.body, source.nonclustered)

    def _body(self) -> tuple[str, bool]:
        columns = [
            Definitions(self.random).column(name) for name in self.random.sample(COLUMNS, self.random.randint(1, 3))
        ]
        key = self.random.choice((*KEYS, KEYS[0], *([KEYLESS] if self.keyless else [])))
        nonclustered = "NONCLUSTERED" in key or "PRIMARY" not in key
        auto = self.random.choice(("", "", " AUTO_INCREMENT"))
        names = [column[1 : column.index("` ")].replace("``", "`") for column in columns]
        if self.random.random() < 0.2:  # named so that no statement changes it
            columns.append(f"`id3` INT GENERATED ALWAYS AS(`id`+1) {self.random.choice(('VIRTUAL', 'STORED'))}")
        listed = ",".join(columns)
        index = self.random.choice(
            ("", "", f",INDEX ({quoted(names[0])})", f",UNIQUE KEY `by` ({quoted(names[-1])},`id`)")
        )
        if "{columns}" in key:
            return key.format(columns=listed, auto=auto) + index, nonclustered
        return f"{key.format(auto=auto)},{listed}{index}", nonclustered

    def view(self, name: TableName, tables: Tables, verb: str = "CREATE ") -> Proposal:
        other, third = (self.random.choice(base_tables(tables)) for _ in range(2))
        column = quoted(self.random.choice(tables[other].columns).name)
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
