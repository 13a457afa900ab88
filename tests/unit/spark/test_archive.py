"""Which start an archive of classes is for: exactly the one that it was made in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from consumer.spark.archive import Start, archived_start, keep, maker

CONF = {"spark.driver.memory": "1g", "spark.ui.enabled": "false"}
MADE = Start(("/usr/bin/java", "-cp", "jars/*", "-Xmx1g"), {"SPARK_ENV_LOADED": "1"})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with an archive for CONF in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with maker(CONF) as archive:
        assert archive is not None
        archive.write_bytes(b"classes")
        keep(CONF, archive, MADE)
    return tmp_path / "storage-consumer" / "spark"


def test_the_same_start_uses_it(cache: Path) -> None:
    start = archived_start({**CONF, "spark.ui.enabled": "true"})
    assert start is not None
    assert start.command[0] == "/usr/bin/java"
    assert start.command[-3:] == ("-cp", "jars/*", "-Xmx1g")
    assert f"-XX:SharedArchiveFile={next(cache.glob('*.jsa'))}" in start.command
    assert start.environment == {"SPARK_ENV_LOADED": "1"}


def test_it_is_made_once(cache: Path) -> None:
    with maker(CONF) as archive:
        assert archive is None


def test_what_a_maker_left_that_died_is_cleared_away(cache: Path) -> None:
    (cache / "0123456789abcdef.77.new").write_bytes(b"half")
    other = {"spark.driver.memory": "2g"}
    with maker(other) as archive:
        assert archive is not None
        assert [path for path in cache.iterdir() if path.suffix == ".new"] == []
    assert archived_start(CONF) is not None


def test_one_whose_spark_is_gone_is_cleared_away_by_the_next_maker(cache: Path) -> None:
    (note,) = cache.glob("*.json")
    (archive,) = cache.glob("*.jsa")
    gone = {**json.loads(note.read_text()), "archive": "gone.jsa", "parts": ["/no/such/venv/pyspark/jars"]}
    (cache / "gone.json").write_text(json.dumps(gone))
    (cache / "gone.jsa").write_bytes(b"classes")
    (cache / "damaged.json").write_text("{")
    with maker({"spark.driver.memory": "2g"}):
        assert {path.name for path in cache.iterdir()} == {note.name, archive.name, "lock"}


@pytest.mark.parametrize("conf", [{}, {"spark.driver.memory": "2g"}, {**CONF, "spark.driver.extraClassPath": "x.jar"}])
def test_another_start_of_the_driver_does_not(cache: Path, conf: dict[str, str]) -> None:
    assert archived_start(conf) is None


@pytest.mark.parametrize(
    "name", ["SPARK_HOME", "SPARK_CONF_DIR", "JDK_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS", "JAVA_HOME"]
)
def test_another_environment_does_not(cache: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "/elsewhere")
    assert archived_start(CONF) is None


def test_another_java_does_not(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(java.parent), prepend=os.pathsep)
    assert archived_start(CONF) is None


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("suffix", ["jsa", "json"])
@pytest.mark.parametrize("harm", [Path.unlink, _cut, lambda path: path.chmod(0o666)], ids=["lost", "cut", "of all"])
def test_one_that_is_lost_cut_or_open_to_others_does_not(cache: Path, suffix: str, harm: object) -> None:
    harm(next(cache.glob(f"*.{suffix}")))  # type: ignore[operator]
    assert archived_start(CONF) is None


def test_no_cache_folder_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert archived_start(CONF) is None
