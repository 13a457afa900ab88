"""Which releases of Spark are refused, and which have another PySpark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from consumer.errors import BadConfig
from consumer.sink import spark_properties
from consumer.sink.lake.jars import SPARK
from consumer.spark.internals import spark_home
from consumer.spark.release import check_release, minor, release_in

ROOT = Path(__file__).parents[3]


def test_the_spark_of_pyspark_is_taken() -> None:
    assert minor(release_in(spark_home())) == minor(pyspark.__version__)
    check_release(release_in(spark_home()), spark_home())


@pytest.mark.parametrize("release", ["3.5.6-amzn-2", "3.5.1"])
def test_an_old_spark_is_named_with_its_folder(release: str, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"spark-core_2.12-{release}.jar").touch()
    with pytest.raises(BadConfig, match=rf"^Spark is {release}, in {tmp_path}: 4\.0 or newer is needed$"):
        check_release(release_in(str(tmp_path)), str(tmp_path))


def test_an_old_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    with pytest.raises(BadConfig, match=r"^PySpark is 3\.5\.9: 4\.0 or newer"):
        check_release("")


def test_spark_and_pyspark_must_be_of_one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    check_release("4.1.0")
    with pytest.raises(BadConfig, match=r"Spark is 4\.0\.2-amzn-0, and PySpark is 4\.1\.4") as refused:
        check_release("4.0.2-amzn-0")
    assert "pyspark==4.0.*" in refused.value.hint


@pytest.mark.parametrize("uri", ["delta:///tmp/lake", "iceberg:///tmp/lake"])
def test_a_lake_needs_the_release_of_its_jars(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    with pytest.raises(BadConfig, match=rf"needs PySpark {SPARK}.*this is 4\.0\.1"):
        spark_properties(uri)


def test_without_data_sources_of_python_the_format_says_so_and_hides_no_other() -> None:
    """As on PySpark 3.5, which has no module of that name."""
    block = "import sys; sys.modules['pyspark.sql.datasource'] = None; import pyspark_ticdc as it; "
    run = [sys.executable, "-c", block + "assert not hasattr(it, 'DefaultSource')"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("The format ticdc is not available: ")
    assert "It needs Python 3.11 and PySpark 4.0 or newer; PySpark here: " in done.stderr
    assert len(done.stderr.splitlines()) == 1
