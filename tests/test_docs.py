"""What the README and the pages of docs say is so, and one finds them."""

from __future__ import annotations

import re
from pathlib import Path

from consumer.cli.program import COMMANDS
from consumer.config.doc import CODES, COMBINED, settings_table, with_table
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.config.spelling import env_of
from consumer.errors import ConsumerError
from tests.support.flags import flags_of_settings, own_flags

ROOT = Path(__file__).parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
}
README = PAGES["README.md"]
ALL = "\n".join(PAGES.values())


def test_the_settings_table_is_the_generated_one() -> None:
    settings = PAGES["docs/settings.md"]
    assert with_table(settings) == settings, "run: python -m consumer.config.doc docs/settings.md"
    assert all(f"`{env_of(field)}`" in settings_table() for field in Settings.model_fields)


def test_the_table_of_what_does_not_go_together_is_the_generated_one() -> None:
    shaping = PAGES["docs/shaping.md"]
    assert with_table(shaping, COMBINED) == shaping, "run: python -m consumer.config.doc docs/shaping.md"


def test_the_table_of_codes_is_the_generated_one() -> None:
    errors = PAGES["docs/errors.md"]
    assert with_table(errors, CODES) == errors, "run: python -m consumer.config.doc docs/errors.md"


def test_every_command_is_described_and_no_other() -> None:
    page = PAGES["docs/commands.md"]
    section = page[page.index("## Commands") : page.index("| Exit code")]
    described = re.findall(r"^\| `([a-z-]+)", section, re.MULTILINE)
    assert sorted(described) == sorted(command.name for command in COMMANDS)


def test_commands_shown_in_code_exist() -> None:
    shown = set(re.findall(r"storage-consumer ([a-z][a-z-]+)", ALL))
    assert {"once", "resync"} <= shown <= {command.name for command in COMMANDS}


def test_flags_shown_in_commands_exist() -> None:
    own = {command.name: own_flags(command) for command in COMMANDS}
    shown = re.findall(r"storage-consumer ([a-z][a-z-]+)([^\n`#$]*)", ALL)
    assert len(shown) > 20
    for command, words in shown:
        assert {*re.findall(r"(?<!\S)--[a-z-]+", words)} <= flags_of_settings() | own[command], f"{command}{words}"


def test_files_that_are_shown_are_taken(tmp_path: Path) -> None:
    shown = re.findall(r"```toml\n(.*?)```", ALL, re.DOTALL)
    assert len(shown) > 10
    for text in shown:
        config = tmp_path / "changefeed.toml"
        config.write_text(text, encoding="utf-8")
        given = {} if "upstream" in text else {"upstream_uri": "s3://bucket/cdc?protocol=canal-json"}
        assert not load(given, {"MASK_KEY": "of sixteen letters"}, str(config)).notes, text


def test_every_exit_code_is_explained() -> None:
    def codes(kind: type[ConsumerError]) -> set[int]:
        return {kind.exit_code}.union(*(codes(child) for child in kind.__subclasses__()))

    explained = {int(code) for code in re.findall(r"^\| (\d) \|", PAGES["docs/commands.md"], re.MULTILINE)}
    assert explained == codes(ConsumerError) | {0}


def test_make_targets_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {*re.findall(r"`make ([a-z]+)", ALL), *re.findall(r"^make ([a-z]+)", README, re.MULTILINE)}
    assert {"setup", "demo", "test", "check"} <= named <= targets


def test_paths_that_are_named_exist() -> None:
    named = set(re.findall(r"`((?:tests|consumer|scripts)/[\w./]+)`", ALL))
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_tests_of_threats_exist() -> None:
    named = re.findall(r"`(\S+\.py)::(test_\w+)`", PAGES["docs/threats.md"])
    assert len(named) > 25
    for file, name in named:
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{file}::{name}"


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page, text in PAGES.items() for link in re.findall(r"\]\((?!https://)([^)\s]+)\)", text)]
    assert len(links) > 100
    assert [(page, link) for page, link in links if not _leads_somewhere(page, link)] == []


def _leads_somewhere(page: str, link: str) -> bool:
    file, _, place = link.partition("#")
    target = (ROOT / page).parent / file if file else ROOT / page
    return target.exists() and (not place or place in _places(target.read_text(encoding="utf-8")))


def test_the_readme_names_every_page() -> None:
    named = set(re.findall(r"\((docs/[\w-]+\.md|[A-Z]+\.md)\)", README[README.index("## Where to find what") :]))
    assert named == PAGES.keys() - {"README.md"}


def test_pages_that_the_program_and_its_tests_name_exist() -> None:
    sources = (path for folder in ("consumer", "tests", "scripts") for path in (ROOT / folder).rglob("*.py"))
    for source in sources:
        for name in re.findall(r"\bdocs/[\w-]+\.(?:md|json)", source.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{source}: {name}"


def _places(text: str) -> set[str]:
    """The anchors that headings make."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_first_two_pages_are_read_in_a_sitting() -> None:
    assert len(README.splitlines()) <= 150
    assert len(PAGES["ARCHITECTURE.md"].splitlines()) < 200


def test_the_site_has_every_page() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert sorted(re.findall(r"- (?:\w+: )?([\w/-]+\.md)$", site, re.MULTILINE)) == sorted(PAGES)


def test_what_pages_for_developers_name_in_the_source_exists() -> None:
    sources = [path for folder in ("consumer", "tests", "scripts") for path in (ROOT / folder).rglob("*")]
    paths = [f"/{path.relative_to(ROOT).as_posix()}" for path in sources]
    words = {word for path in sources if path.suffix == ".py" for word in re.findall(r"\w+", path.read_text("utf-8"))}
    for page in ("ARCHITECTURE.md", "docs/add-a-target.md"):
        spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL))
        files = [span for span in spans if re.fullmatch(r"[\w/]+(/|\.py)|\w+(/\w+)+", span)]
        assert [file for file in files if not any(_is_at_end(file.rstrip("/"), path) for path in paths)] == [], page
        code = [span for span in spans if re.fullmatch(r"\w[\w.]*\w(\(.*\))?", span) and span not in files]
        named = {word for span in code for word in re.findall(r"[A-Za-z_]{3,}", span)}
        assert named - words == set(), page


def _is_at_end(file: str, path: str) -> bool:
    return path.removesuffix(".py").endswith(f"/{file.removesuffix('.py')}")
