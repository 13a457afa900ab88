"""What `pip install` brings: the program, and nothing of its tests."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
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


def test_the_image_is_built_of_all_that_the_wheel_has() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    shown = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    needed = {*packages["packages"], "pyproject.toml", "README.md", "LICENSE"}
    assert needed <= {name for line in copied for name in line.split()}
    assert needed <= shown
