"""A module imports only from lower layers or its own package, and the lowest need nothing but Python."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support.syntax import tree_of

ROOT = Path(__file__).parent.parent
LAYERS = (
    {"errors"},
    {"model"},
    {"target", "results"},
    {"ports"},
    {"ddl"},
    {"codec"},
    {"layout", "changes", "history"},
    {"plan"},
    {"pipeline", "storage", "spark", "sink", "observe"},
    {"config", "verify"},
    {"app"},
    {"source"},
    {"cli", "api", "lake"},
    {"__main__"},
)
"""Packages of one level do not import one another."""
LAYER_OF = {package: number for number, packages in enumerate(LAYERS) for package in packages}
WITHOUT_IO = {"layout", "ddl", "changes", "history", "plan"}
"""Packages that decide, and read and write nothing: who calls them gives them what was read."""
OF_TABLES = {"model", "codec", "ddl", "changes", "history", "plan", "pipeline", "spark", "sink", "verify"}
"""Packages that know names of databases, tables, columns and indexes."""
NAMES = {"name", "names", "name_in", "old_name", "database", "table", "column", "spelling"}
PLAIN = LAYER_OF["ports"]
"""Up to here nothing is needed but Python's own library."""

PROTOCOL_PACKAGES = tuple(f"consumer.codec.{p.parent.name}" for p in (ROOT / "consumer/codec").glob("*/protocol.py"))
MODULES = sorted(path.relative_to(ROOT) for path in (ROOT / "consumer").rglob("*.py"))
MODULE_NAMES = {".".join(path.with_suffix("").parts) for path in MODULES if path.name != "__init__.py"}


def package_of(path: Path) -> str:
    """``consumer/sink/mysql/x.py`` -> ``sink``; ``consumer/__init__.py`` -> ``""``."""
    parts = path.with_suffix("").parts[1:]
    return "" if parts[0] == "__init__" else parts[0]


@cache
def nodes_of(source: str) -> Sequence[ast.AST]:
    return list(ast.walk(tree_of(source)))


def imported(source: str) -> Iterator[str]:
    """Dotted names of everything imported anywhere in `source`, in functions too."""
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            module = node.module or ""
            yield from (f"consumer.{name.name}" for name in node.names) if module == "consumer" else (module,)


def imports_of(path: Path) -> set[str]:
    """The modules of ours that a module imports anywhere, for its types too."""
    names = set()
    for node in nodes_of(source_of(path)):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{name.name}" for name in node.names)}
    return (names & MODULE_NAMES) - {module_name(path)}


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def wrong(own: str, names: Iterator[str]) -> list[str]:
    """Imports that the package `own` may not have."""
    found = []
    for name in names:
        top, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if top != "consumer":
            # What is printed is made of pydantic's models, which no executor loads (tests/test_imports.py).
            of_results = own == "results" and top in ("pydantic", "pydantic_core")
            allowed = LAYER_OF[own] > PLAIN or top in sys.stdlib_module_names or of_results
        elif target not in LAYER_OF:
            allowed = target == "__version__"
        else:
            allowed = target == own or LAYER_OF[target] < LAYER_OF[own]
        if not allowed:
            found.append(name)
    return found


def offenders(packages: Container[str], wrong_in: Callable[[Path], Collection[str]]) -> dict[str, Collection[str]]:
    """Of the modules in `packages`, those in which something is wrong, with what it is."""
    found = {str(path): wrong_in(path) for path in MODULES if package_of(path) in packages}
    return {path: wrong for path, wrong in found.items() if wrong}


def source_of(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_imports_go_down() -> None:
    assert offenders(LAYER_OF, lambda path: wrong(package_of(path), imported(source_of(path)))) == {}


def test_targets_share_what_is_no_targets_own() -> None:
    """`mysql`, `duckdb` and `memory` know nothing of one another; what several need stands beside them."""
    targets = {p.parent.name for p in (ROOT / "consumer/sink").glob("*/sink.py")}

    def others(path: Path) -> set[str]:
        named = {name.split(".")[2] for name in imports_of(path) if name.startswith("consumer.sink.")}
        return (named & targets) - {path.parts[2]}

    assert offenders({"sink"}, others) == {}


def test_what_decides_reads_nothing() -> None:
    """`folding` of the changes begins with the files of a task."""
    found = offenders(WITHOUT_IO, lambda path: imports_of(path) & {"consumer.ports", "consumer.target"})
    assert found == {"consumer/changes/folding.py": {"consumer.ports"}}


def test_no_module_imports_one_that_imports_it() -> None:
    order = TopologicalSorter({module_name(path): imports_of(path) for path in MODULES})
    assert set(order.static_order()) >= MODULE_NAMES, "graphlib raises CycleError, with the circle, where there is one"


def test_the_package_itself_imports_nothing() -> None:
    assert list(imported((ROOT / "consumer/__init__.py").read_text(encoding="utf-8"))) == []


def test_every_package_has_a_layer() -> None:
    assert {package_of(path) for path in MODULES} - {""} <= set(LAYER_OF)


@pytest.mark.parametrize(
    ("own", "source"),
    [
        ("model", "import pyarrow"),
        ("model", "from consumer import ports"),
        ("plan", "from consumer.sink import x"),
        ("sink", "from consumer.storage.reader import x"),
        ("observe", "def f():\n    import consumer.config.load"),
        ("app", "from consumer.cli import output"),
    ],
)
def test_the_check_sees_what_it_forbids(own: str, source: str) -> None:
    assert wrong(own, imported(source))


def test_what_a_protocol_knows_is_asked_through_its_port() -> None:
    others = {package_of(path) for path in MODULES} - {"codec"}
    assert offenders(others, lambda path: protocols_own(imported(source_of(path)))) == {}


def protocols_own(names: Iterable[str]) -> list[str]:
    """Those of `names` that are within a protocol's package."""
    return [name for name in names if name.startswith(PROTOCOL_PACKAGES)]


def test_the_check_sees_what_a_protocol_knows() -> None:
    names = ["consumer.codec.csv.options", "consumer.codec.canal_json.protocol", "consumer.codec"]
    assert protocols_own(names) == names[:2]


def lowered_names(source: str) -> list[str]:
    """What `source` calls a name and puts in lower case by hand, as ``column.name.lower()``."""
    attributes = [node for node in nodes_of(source) if isinstance(node, ast.Attribute)]
    return [
        ast.unparse(node) for node in attributes if node.attr in ("lower", "casefold") and called(node.value) & NAMES
    ]


def called(node: ast.expr) -> set[str]:
    """The last words of an expression: ``f(x).name`` is called ``name``, and ``name_in(x)`` is called ``name_in``."""
    match node:
        case ast.Name(found) | ast.Attribute(_, found):
            return {found}
        case ast.Call(inner) | ast.Subscript(inner):
            return called(inner)
        case ast.BoolOp(_, several):
            return set().union(*map(called, several))
    return set()


def test_one_rule_says_which_names_are_the_same() -> None:
    """`same_name` does. The name of an action is no table's."""
    assert offenders(OF_TABLES, lambda path: lowered_names(source_of(path))) == {
        "consumer/model/actions.py": ["self.name.lower"],
        "consumer/model/names.py": ["name.lower"],
    }


def test_the_check_sees_names_in_lower_case() -> None:
    found = ["column.name.lower", "name_in(tokens, 2).lower", "(part.column or '').lower", "names[0].casefold"]
    assert lowered_names("\n".join([*found, "column.type.lower", "str(error).lower", "'name'.lower"])) == found


def names_read(source: str) -> list[str]:
    """The names of a schema file that `source` reads: ``step.file.name``, or ``file.table``."""
    return [
        ast.unparse(node)
        for node in nodes_of(source)
        if isinstance(node, ast.Attribute) and node.attr in ("name", "database", "table")
        if ast.unparse(node.value).split(".")[-1] == "file"
    ]


def test_a_target_goes_by_its_own_names() -> None:
    """The names of a schema file are the upstream's: a step says what its table is called in the target."""
    assert offenders({"sink"}, lambda path: names_read(source_of(path))) == {}


def test_the_check_sees_names_of_schema_files() -> None:
    source = "step.file.name\nfile = step.file\nfile.table\nstep.file.version\nstep.name"
    assert names_read(source) == ["step.file.name", "file.table"]
