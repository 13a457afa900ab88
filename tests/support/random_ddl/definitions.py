"""Random columns, and values for them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from consumer.model.columns import Column
from tests.support.random_ddl.original import quoted

COLUMNS = ("v", "w", "key", "x`y", "Name", "primary")
"""Beside `id`. Some are words of the language, one has a backtick."""
TEXTS = ("a", "A", "b", "it''s", "`c`;", "/* d */", "-- e", "")
"""In SQL, without their quotes."""
KINDS = (
    "INT",
    "INT UNSIGNED",
    "BIGINT",
    "VARCHAR(9)",
    "VARCHAR(20)",
    "VARCHAR(9) COLLATE utf8mb4_general_ci",
    "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "DECIMAL(8,2)",
    "DATETIME(3)",
    "TIMESTAMP",
    "ENUM",
)
ENUM = "ENUM('a','b','c')"
WIDER = {
    "INT": ("BIGINT", "INT"),
    "INT UNSIGNED": ("BIGINT UNSIGNED", "INT UNSIGNED"),
    "BIGINT": ("BIGINT",),
    "BIGINT UNSIGNED": ("BIGINT UNSIGNED",),
    "VARCHAR": ("VARCHAR(30)", "VARCHAR(60)", "TEXT"),
    "TEXT": ("TEXT",),
    "DECIMAL": ("DECIMAL(8,2)", "DECIMAL(12,2)"),
    "DATETIME": ("DATETIME(3)", "DATETIME(6)"),
    "TIMESTAMP": ("TIMESTAMP", "TIMESTAMP(3)"),
    "ENUM": (ENUM, "ENUM('a','b','c','d')"),
}


@dataclass(frozen=True)
class Definitions:
    """Draws definitions and values from one source."""

    random: random.Random

    def column(self, name: str, kind: str = "", nullable: bool = False) -> str:
        """A definition as TiDB writes it. A column that is there already must say its `kind`, and whether it is
        `nullable`: MariaDB, unlike TiDB, would turn the NULLs of a TIMESTAMP into the time now."""
        kind = kind or self.random.choice(KINDS)
        kind = ENUM if kind == "ENUM" else kind
        if kind == "TEXT":
            return f"{quoted(name)} TEXT"
        null = self.random.choice(("", "", " NULL", " NOT NULL", " NOT NULL"))
        null = " NULL" if nullable and kind.startswith("TIMESTAMP") else null
        needed = null == " NOT NULL" and kind.startswith(("DATETIME", "TIMESTAMP"))
        default = f" DEFAULT {self.default(kind)}" if needed or self.random.random() < 0.5 else ""
        comment = f" COMMENT '{self.random.choice(TEXTS)}'" if self.random.random() < 0.15 else ""
        return f"{quoted(name)} {kind}{null}{default}{comment}"

    def default(self, kind: str) -> str:
        if kind.startswith(("DATETIME", "TIMESTAMP")):
            digits = kind.partition("(")[2]
            now = f"CURRENT_TIMESTAMP{'(' + digits if digits else '()'}"
            return self.random.choice((now, now, "_UTF8MB4'2024-03-01 01:02:03'"))
        if kind.startswith("VARCHAR"):
            return f"_UTF8MB4'{self.random.choice(TEXTS)}'"
        if kind.startswith("ENUM"):
            return "_UTF8MB4'b'"
        return "_UTF8MB4'1.50'" if kind.startswith("DECIMAL") else str(self.random.randrange(9))

    def wider(self, column: Column) -> str:
        """A type that holds all values of the column."""
        known = WIDER[f"{column.type} UNSIGNED" if column.unsigned else column.type]
        fitting = [kind for kind in known if kind == "TEXT" or _size(kind) >= _size_of(column)]
        return self.random.choice(fitting)

    def value(self, column: Column) -> str:
        """A value in SQL."""
        if column.nullable and self.random.random() < 0.2:
            return "NULL"
        if column.type in ("VARCHAR", "TEXT"):
            return f"'{self.random.choice([t for t in TEXTS if len(t) <= (column.length or 9)])}'"
        if column.type == "ENUM":
            return f"'{self.random.choice('abc')}'"
        if column.type == "DECIMAL":
            return f"'{self.random.randrange(900) / 100}'"
        if column.type in ("DATETIME", "TIMESTAMP"):
            return f"'2024-0{self.random.randint(1, 9)}-02 03:04:05.{self.random.randrange(1000):03}'"
        return str(self.random.randrange(9))


def _size(kind: str) -> int:
    digits = kind.partition("(")[2].split(",")[0].rstrip(")")
    return kind.count("'") if kind.startswith("ENUM") else int(digits) if digits.isdigit() else 0


def _size_of(column: Column) -> int:
    if column.type == "ENUM":
        return 2 * len(column.elements)
    sizes = {"VARCHAR": column.length, "DECIMAL": column.length, "DATETIME": column.scale, "TIMESTAMP": column.scale}
    return sizes.get(column.type) or 0
