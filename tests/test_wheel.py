"""What `pip install` brings: the program, and nothing of its tests."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_wheel_has_the_program_alone(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (of_metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(of_metadata).decode()
    assert {name.partition("/")[0] for name in names} == {"consumer", "pyspark_ticdc", of_metadata.partition("/")[0]}
    packages = (ROOT / "consumer", ROOT / "pyspark_ticdc")
    modules = {path.relative_to(ROOT).as_posix() for package in packages for path in package.rglob("*.py")}
    assert modules == {name for name in names if name.endswith(".py")}
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert "License-Expression: Apache-2.0" in metadata.splitlines()
    assert metadata.count("\nClassifier: ") > 5
