"""What pages, docstrings and messages name exists: settings, flags, members of classes, values that a target gets."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, get_args, get_type_hints

from consumer import target
from consumer.cli.program import COMMANDS
from consumer.config.settings import Settings
from consumer.config.spelling import file_key_of
from consumer.model import load, progress, steps
from tests.support.flags import flags_of_settings, own_flags
from tests.support.syntax import tree_of

ROOT = Path(__file__).parent.parent
PAGES = [path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")) if path.name != "CHANGELOG.md"]
TREES = [
    tree_of(path.read_text("utf-8")) for top in ("consumer", "pyspark_ticdc") for path in (ROOT / top).rglob("*.py")
]
NODES = [node for tree in TREES for node in ast.walk(tree)]
STRINGS = [node.value for node in NODES if isinstance(node, ast.Constant) and isinstance(node.value, str)]
TEXTS = [*(path.read_text("utf-8") for path in PAGES), *STRINGS]
OTHERS = (
    "archives build-arg escape-backslash help no-deps no-schemas output-filename-template params py-files sink-uri sql"
)
"""Flags of Spark, Docker, Dumpling, pip and TiCDC, and ``--help``."""
VALUES = {"request": target.LoadRequest, "step": steps.ApplyDdl, "target": load.LoadTarget, "window": steps.Window}
VALUES |= {"progress": progress.Progress, "change": progress.ProgressChange}


def _named(pattern: str) -> set[Any]:
    return {name for text in TEXTS for name in re.findall(pattern, text)}


def test_settings_exist() -> None:
    named = _named(r"\[consumer\.([a-z-]+)") | _named(r"`([a-z-]+) = [^`]+` in `?\[consumer\]")
    assert {"routes", "on-bad-row"} <= named <= {file_key_of(field).split()[-1] for field in Settings.model_fields}


def test_flags_exist() -> None:
    sources = (path.read_text("utf-8") for top in ("tests", "scripts") for path in (ROOT / top).rglob("*.py"))
    of_tests = {flag for text in sources for flag in re.findall(r'add(?:_argument|option)\(\s*"(--[a-z-]+)"', text)}
    known = of_tests.union(flags_of_settings(), *map(own_flags, COMMANDS), (f"--{name}" for name in OTHERS.split()))
    assert {"--tz"} <= _named(r"`(--[a-z][a-z-]*[a-z])") <= known


def test_members_of_classes_exist() -> None:
    members, bases = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for one in (node for node in NODES if isinstance(node, ast.ClassDef)):
        bases[one.name] |= {ast.unparse(base) for base in one.bases} - {one.name}
        for node in ast.walk(one):
            match node:
                case ast.FunctionDef(name) | ast.ClassDef(name) | ast.AnnAssign(ast.Name(name)):
                    members[one.name].add(name)
                case ast.Assign([ast.Name(name)]) | ast.Attribute(ast.Name("self"), name):
                    members[one.name].add(name)

    def has(name: str, member: str) -> bool:
        return member in members[name] or any(has(base, member) for base in bases[name])

    named = _named(r"`([A-Z]\w+)\.(\w+)[`(.]")
    assert ("LoadTarget", "columns") in named
    assert {(name, member) for name, member in named if name in bases and not has(name, member)} == set()


def test_values_that_a_target_gets_exist() -> None:
    named = _named(rf"`+({'|'.join(VALUES)})\.([a-z_.]+)(?<!\.py)[`(]")
    assert ("request", "load.absent") in named
    for name, members in named:
        of: type = VALUES[name]
        for member in members.split("."):
            value, types = getattr(of, member, None), get_type_hints(of)
            assert value is not None or member in types, f"`{name}.{members}`"
            found = get_type_hints(value.fget)["return"] if isinstance(value, property) else types.get(member)
            of = next((one for one in get_args(found) if isinstance(one, type)), found)
