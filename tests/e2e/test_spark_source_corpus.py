"""The recorded changefeeds as a data source reads them: each table's state is upstream's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import CannotBeExact, ConsumerError, TableMissing
from tests.e2e.compare_typed import differences
from tests.e2e.corpus import Case, read_cases
from tests.support.spark_source import read

CORPUS = Path(__file__).parents[2] / "fixtures" / "cdc"
REFUSED: dict[tuple[str, str], type[ConsumerError]] = {
    ("tiflow/d2_nokey/csv_ts", "nk.t"): CannotBeExact,
    ("tiflow/d2_nokey/csv_ts", "nk.uknull"): CannotBeExact,
    ("tiflow/e_part/cj_ext", "pt.ex"): CannotBeExact,
    ("tiflow/e_part/cj_ext", "pt.r"): CannotBeExact,
    ("tiflow/h4_preexist/cj_ext", "px.idle"): TableMissing,
    ("tiflow/h4_preexist/cj_ext", "px.t"): CannotBeExact,
}
"""No key and no old rows, rows that an EXCHANGE PARTITION brought, tables that are older than the changefeed."""


NAMES = [line.split()[0] for line in (CORPUS / "cases.txt").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_each_table_is_that_of_upstream(name: str, tmp_path: Path) -> None:
    (case,) = (one for one in read_cases(CORPUS, tmp_path / "unpacked") if one.name == name)
    storage = tmp_path / "storage"
    storage.mkdir()
    case.feed(storage)
    tables = json.loads((case.expected() / "tables.json").read_text(encoding="utf-8"))["tables"]
    for table in tables:
        if table["type"] == "BASE TABLE":
            check(case, storage, table)


def check(case: Case, storage: Path, table: dict[str, Any]) -> None:
    name = f"{table['schema']}.{table['table']}"
    asked = {"table": name, "mode": "state", "config": str(case.folder / "config.toml")}
    if "--checkpoint-ts max" in case.note:
        asked["checkpoint_ts"] = "max"
    for flag, value in case.flags.items():
        if flag != "routes":
            asked[flag] = ",".join(value) if isinstance(value, (list, tuple)) else str(value)
    uri = f"file://{storage}?protocol={case.protocol}"
    if (refused := REFUSED.get((case.name, name))) is not None:
        with pytest.raises(refused):
            read(uri, **asked)
        return
    assert differences(read(uri, **asked), table, case.expected()) == [], name
