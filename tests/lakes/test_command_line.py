"""A lake as a user sees it: commands in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from consumer.errors import BadConfig
from consumer.sink import spark_properties
from tests.support.command_line import DEMO
from tests.support.lakes import FORMATS, lake_uri


@pytest.mark.parametrize("lake", FORMATS)
def test_status_of_a_lake_that_is_not_there_yet(lake: str, tmp_path: Path) -> None:
    uri = lake_uri(lake, tmp_path)
    try:
        spark_properties(uri)
    except BadConfig as lacking:
        pytest.skip(str(lacking))
    command = [str(Path(sys.executable).with_name("storage-consumer")), "status", "--downstream-uri", uri]
    storage = ["--upstream-uri", f"file://{DEMO}?protocol=canal-json", "--tz", "UTC"]
    done = subprocess.run([*command, *storage], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "nothing applied yet"
    assert "leaked" not in done.stderr
