"""The Python functions of the commands: the examples of docs/python.md run in order, on the demo's changefeed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from consumer import api
from consumer.errors import BadConfig
from tests.support.command_line import DEMO_TABLES, CommandLine, command_line

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.fixture
def consumer(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


def test_the_examples_of_the_docs(consumer: CommandLine) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 5
    names: dict[str, Any] = {}
    for block in blocks:
        code = block.replace("file:///data/cdc", f"file://{consumer.storage}")
        exec(code.replace("duckdb:///replica.duckdb", consumer.target), names)
    result, status, report = names["result"], names["status"], names["report"]
    assert {name.table: table.puts > 0 for name, table in result.tables.items()} == dict.fromkeys(DEMO_TABLES, True)
    assert (status.tables_ok, status.unwell, status.name) == (3, [], "default")
    assert report.tables["du.t"].state == "equal"


def test_a_keyword_that_is_no_setting_is_refused() -> None:
    with pytest.raises(BadConfig, match=r"^upstream_url is not a setting; did you mean upstream_uri\?$"):
        api.once(upstream_url="file:///x")


def test_a_stopped_table_is_in_the_result(consumer: CommandLine) -> None:
    damaged = next(consumer.storage.joinpath("du", "n").glob("*/*/*.json"))
    damaged.write_bytes(b"{" + damaged.read_bytes())
    settings = {"upstream_uri": f"file://{consumer.storage}?protocol=canal-json", "downstream_uri": consumer.target}
    result = api.once(**settings, tz="UTC")
    stopped = {name.table: table.error for name, table in result.tables.items() if table.state == "stopped"}
    assert (result.exit_code, list(stopped)) == (3, ["n"])
    assert damaged.name in stopped["n"]
