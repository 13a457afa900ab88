"""`inspect` from the real command line: what recorded changefeeds were made with, what is wrong with damaged ones, and
that what it prints is enough to start."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import duckdb
import pytest

from tests.e2e.corpus import Case, read_cases
from tests.support.command_line import DEMO_TABLES, S_CREATED, T_CREATED, CommandLine, Left
from tests.support.shop import Shop, as_a_shell_takes
from tests.support.written_files import render_checkpoint

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cdc"
DEFAULTS = {
    "terminator": "\r\n", "delimiter": ",", "quote": '"', "null": "\\N", "include-commit-ts": False,
    "output-old-value": False, "output-handle-key": False, "output-field-header": False,
    "binary-encoding-method": "base64",
}  # fmt: skip
NAMES = [line.split()[0] for line in (FIXTURES / "cases.txt").read_text(encoding="utf-8").splitlines()]


def inspect(cli: CommandLine, *more: str, storage: Path | None = None, code: int = 0) -> Left:
    left = cli.raw("inspect", "--upstream-uri", f"file://{storage or cli.storage}", "--json", *more)
    assert left.code == code
    return left


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return {case.name: case for case in read_cases(FIXTURES, tmp_path_factory.mktemp("unpacked"))}


@pytest.mark.parametrize("name", NAMES)
def test_the_options_of_recorded_changefeeds(name: str, cases: dict[str, Case], cli: CommandLine) -> None:
    case = cases[name]
    body = inspect(cli, storage=case.folder / "storage").json
    wanted = tomllib.loads((case.folder / "config.toml").read_text(encoding="utf-8"))["sink"]
    suggested, found = tomllib.loads(body["toml"])["sink"], body["changefeed"]
    assert suggested["protocol"] == wanted["protocol"]
    assert suggested["date-separator"] == wanted.get("date-separator", "day")
    assert suggested["file-index-digit"] == wanted.get("file-index-digit", 20)
    unproven = found["unproven"]
    assert tomllib.loads(body["toml"]).get("consumer", {}).get("unproven", []) == unproven
    defaults = DEFAULTS if wanted["protocol"] == "csv" else {"terminator": "\r\n"}
    for key, default in defaults.items():
        proven = {**suggested, **suggested.get("csv", {})}.get(key)
        right = {**wanted, **wanted.get("csv", {})}.get(key, default)
        assert proven == (None if key in unproven else right)
        assert f"{key} =" in body["toml"]
    assert not set(unproven) - {"null", "binary-encoding-method"}
    if wanted["protocol"] == "canal-json":
        rows = next((case.folder / "storage").rglob("CDC*0001.json")).read_bytes()
        assert found["with_commit_ts"] is (b'"_tidb":{"commitTs":' in rows)
    assert found["across_nodes"] is wanted.get("scheduler", {}).get("enable-table-across-nodes", "across" in name)
    assert found["architecture"] in ("", "classic" if name.startswith("tiflow/") else "new")
    older = [text for text in body["findings"] if "older than the changefeed" in text]
    open_keys = [text for text in body["findings"] if "the files do not prove" in text]
    assert body["findings"] == open_keys + older
    assert bool(open_keys) == bool(unproven)
    assert bool(older) == ("@start" in case.note)


def as_printed(cli: CommandLine, line: str, folder: Path) -> Left:
    """Run the two commands of a line, of which the first writes a file of the working folder, as a shell would."""
    look, begin = line.split(" && ")
    look, file = look.split(" > ")
    (folder / file).write_text(cli.raw(*as_a_shell_takes(look)).out, encoding="utf-8")
    return cli.raw(*as_a_shell_takes(begin))


@pytest.mark.parametrize("said", ["avro", "csv"])
def test_the_printed_command_has_the_protocol_of_the_files(said: str, cli: CommandLine, tmp_path: Path) -> None:
    body = cli.raw(
        "inspect", "--upstream-uri", f"file://{cli.storage}?protocol={said}&date-separator=day", "--json"
    ).json
    assert any(f"the settings say protocol {said}, and the files are canal-json" in text for text in body["findings"])
    assert as_printed(cli, body["command"], tmp_path).code == 0


def test_the_printed_command_asks_for_the_moment_of_an_export_where_tables_are_older(
    shop: Shop, tmp_path: Path
) -> None:
    shop.feed.describe("d.old", 3)
    shop.feed.puts("d.old", 3, {16: (1, "1")})
    shop.feed.checkpoint(20)
    shop.by_hand("CREATE TABLE d.old (id INT, v INT)")
    uri, target = f"file://{shop.feed.folder}", f"duckdb:///{tmp_path}/replica.duckdb"
    command = shop.cli.raw("inspect", "--upstream-uri", uri, "--downstream-uri", target, "--json").json["command"]
    assert command.endswith(" --start-ts MOMENT-OF-THE-EXPORT"), "a guess would lose what came since"
    assert as_printed(shop.cli, f"{command} --name new", tmp_path).code == 2
    known = command.replace("MOMENT-OF-THE-EXPORT", "15")
    assert as_printed(shop.cli, f"{known} --name new", tmp_path).code == 0


def test_what_is_printed_is_enough_to_start(cli: CommandLine, tmp_path: Path) -> None:
    body = inspect(cli).json
    assert body["checkpoint_ts"] == 470611625733521409
    assert {name: (t["versions"], t["ddl"], t["files"]) for name, t in body["tables"].items()} == {
        "du.n": (1, 1, 3), "du.s": (2, 2, 7), "du.t": (2, 2, 12),
    }  # fmt: skip
    assert as_printed(cli, body["command"], tmp_path).code == 0
    with duckdb.connect(str(tmp_path / "replica.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT * FROM du.s").fetchall() == DEMO_TABLES["s"]


def test_text_for_people(cli: CommandLine) -> None:
    words = ("inspect", "--upstream-uri", f"file://{cli.storage}", "--tables", "du.t", "--time-range")
    for more, counts in ((), ["du.t", "12", "23.1"]), (("-v",), ["du.t", "2", "2", "12"]):
        left = cli.raw(*words, *more)
        assert left.code == 0
        assert "checkpoint  2026-11-21T06:01:21.857Z (470611625733521409)" in left.out
        assert "canal-json, with commit-ts" in left.out
        assert ("date-separator day, numbers of 20 digits" in left.out) == bool(more)
        assert ("[sink]" in left.out) == bool(more)
        (row,) = (line for line in left.out.splitlines() if line.startswith("du."))
        assert row.split()[: len(counts)] == counts
        assert row.count("2026-11-21T06:0") == 2


def test_the_times_of_a_table_are_those_of_its_rows(cli: CommandLine) -> None:
    tables = inspect(cli, "--time-range").json["tables"]
    lines = [line for file in sorted(cli.storage.glob("du/s/*/*/CDC*.json")) for line in file.read_bytes().splitlines()]
    times = [json.loads(line)["_tidb"]["commitTs"] for line in lines]
    assert (tables["du.s"]["first_ts"], tables["du.s"]["last_ts"]) == (min(times), max(times))


def test_each_fault_is_a_finding(cli: CommandLine) -> None:
    (cli.storage / "metadata").unlink()
    (cli.storage / "notes.txt").write_text("x", encoding="utf-8")
    cli.data_file("t", T_CREATED, 3).unlink()
    schema = cli.schema_file("s", S_CREATED)
    schema.write_bytes(schema.read_bytes()[:100])
    index = cli.data_file("n", 470611622298910720, 1).parent / "meta" / "CDC.index"
    index.write_text(f"CDC{9:020d}.json\n", encoding="utf-8")
    shutil.copyfile(
        cli.data_file("n", 470611622298910720, 1), cli.data_file("n", 470611622298910720, 4).with_suffix(".csv")
    )
    findings = inspect(cli).json["findings"]
    for words in (
        "there is no file metadata",
        "1 path is of no form that TiCDC writes, and left alone: notes.txt",
        "file number 3 is missing before number 4",
        "the schema file is not JSON",
        f"du/s/{S_CREATED}/2026-11-21 has rows, and no schema file",
        "names number 9, and the newest data file is 4",
        "files of two protocols",
    ):
        assert any(words in finding for finding in findings), words


def test_a_protocol_that_does_not_fit_is_a_finding(cli: CommandLine) -> None:
    left = cli.raw("inspect", "--upstream-uri", f"file://{cli.storage}?protocol=csv", "--json")
    assert "the settings say protocol csv, and the files are canal-json" in left.json["findings"]


def test_an_empty_storage_says_so(cli: CommandLine, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "metadata").write_bytes(render_checkpoint(5))
    body = inspect(cli, storage=empty).json
    assert (body["tables"], body["changefeed"]["dialect"]) == ({}, None)
    assert body["findings"] == ["there is nothing that TiCDC writes: check the bucket and the prefix"]
    assert "no rows that show it" in body["toml"]


def test_a_storage_that_is_not_there_may_come_later(cli: CommandLine) -> None:
    left = cli.raw("inspect", "--upstream-uri", "file:///nowhere/cdc", "--json")
    assert left.code == 4
    assert "/nowhere/cdc" in left.json["error"]


def test_a_prefix_that_is_too_short_is_told_by_the_right_one(cli: CommandLine) -> None:
    (cli.storage.parent / "above" / "more").mkdir(parents=True)
    cli.storage.rename(cli.storage.parent / "above" / "more" / "cdc")
    for folder, rest in ((cli.storage.parent / "above" / "more", "cdc"), (cli.storage.parent / "above", "more/cdc")):
        body = inspect(cli, storage=folder, code=4).json
        assert body["findings"] == [
            f"there is no changefeed's storage here, but below it: did you mean file://{folder}/{rest}?"
        ]
        assert body["tables"] == {}


def test_a_prefix_that_goes_too_deep_is_told_by_the_right_one(cli: CommandLine) -> None:
    schema = next(cli.storage.glob("*/*/meta/*.json"))
    for place in (schema.parents[2], schema.parents[1]):
        body = inspect(cli, storage=place, code=4).json
        assert body["findings"] == [
            f"there is no changefeed's storage here, but above it: did you mean file://{cli.storage}?"
        ]
        assert (body["tables"], body["toml"]) == ({}, "")
    left = cli.run("plan", "--upstream-uri", f"file://{schema.parents[1]}?protocol=canal-json")
    assert left.code == 4
    assert f"there is one in file://{cli.storage}: did you mean that?" in left.err
    for command in ("plan", "inspect", "once", "status"):
        left = cli.run(command, "--upstream-uri", f"file://{cli.storage}/metadata?protocol=canal-json")
        assert left.code == (0 if command == "status" else 2)
        assert "`metadata` is in" in left.err or "it is not a directory" in left.out


def test_the_toml_alone_is_what_a_config_takes(cli: CommandLine) -> None:
    left = cli.raw("inspect", "--upstream-uri", f"file://{cli.storage}", "--toml")
    assert left.code == 0
    assert tomllib.loads(left.out)["sink"]["protocol"] == "canal-json"
    (cli.storage.parent / "c.toml").write_text(left.out)
    assert cli.run("once", "--config", str(cli.storage.parent / "c.toml")).code == 0
    nothing = cli.storage.parent / "nothing"
    nothing.mkdir()
    assert cli.raw("inspect", "--upstream-uri", f"file://{nothing}", "--toml").code == 2


def test_the_printed_command_is_for_what_it_was_called_with(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_CONSUMER_DOWNSTREAM_URI", "mysql://replica:secret9@db.example:3306/")
    flags = ("--upstream-uri", f"file://{cli.storage}", "--tz", "Asia/Tokyo", "--tables", "du.*")
    left = cli.raw("inspect", *flags)
    (line,) = (line for line in left.out.splitlines() if " && storage-consumer once" in line)
    command = line.split(" && ")[1]
    words = as_a_shell_takes(command)
    assert words[words.index("--downstream-uri") + 1] == "mysql://replica:***@db.example:3306/"
    assert words[words.index("--tz") + 1] == "Asia/Tokyo"
    assert words[words.index("--tables") + 1] == "du.*"
    assert "leave the flag out and set STORAGE_CONSUMER_UPSTREAM_URI or STORAGE_CONSUMER_DOWNSTREAM_URI" in left.out
    assert "secret9" not in left.out
    monkeypatch.delenv("STORAGE_CONSUMER_DOWNSTREAM_URI")
    assert "--downstream-uri duckdb:///replica.duckdb --tz UTC" in cli.raw("inspect", *flags[:2]).out
