"""Bad input from the command line: one clear sentence, the promised exit code, the other tables done, and after mending
the input a plain re-run ends equal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import (
    DEMO_TABLES,
    N_CREATED,
    S_CREATED,
    T_CREATED,
    T_WIDENED,
    CommandLine,
    Left,
    duckdb_tables,
)

Damage = Callable[[CommandLine], object]
T_FILE = f"du/t/{T_CREATED}/2026-11-21/CDC{2:020d}.json"


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert path.read_bytes() != before


def data(change: Callable[[bytes], bytes], table: str = "t", version: int = T_CREATED, number: int = 2) -> Damage:
    return lambda cli: rewrite(cli.data_file(table, version, number), change)


def schema(change: Callable[[bytes], bytes], version: int = T_WIDENED) -> Damage:
    return lambda cli: rewrite(cli.schema_file("t", version), change)


def gone(find: Callable[[CommandLine], Path]) -> Damage:
    return lambda cli: find(cli).unlink()


# The storage as a whole


def test_a_storage_that_is_not_there_may_come_later(cli: CommandLine) -> None:
    left = cli.run("once", "--upstream-uri", "file:///nowhere/cdc?protocol=canal-json", "--json")
    assert left.code == 4
    assert "file:///nowhere/cdc" in left.json["error"]
    assert left.err.count("\n") == 2


def test_without_metadata_the_flag_is_named(cli: CommandLine) -> None:
    (cli.storage / "metadata").unlink()
    for command in ("once", "plan", "backfill"):
        left = cli.run(command, "--json")
        assert left.code == 4
        assert "metadata" in left.json["error"]
        assert "--checkpoint-ts" in left.json["hint"]
    assert cli.run("status").code == 0
    assert cli.run("once", "--checkpoint-ts", "max").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"checkpoint-ts":"x"}', b"\xff\x00"])
def test_metadata_that_is_no_checkpoint_is_tried_again_later(content: bytes, cli: CommandLine) -> None:
    (cli.storage / "metadata").write_bytes(content)
    left = cli.run("once", "--json")
    assert left.code == 4
    assert left.json["error"].startswith("metadata: this is not the checkpoint file of a changefeed")
    cli.mend()
    assert cli.run("once").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_checkpoint_that_goes_back_changes_nothing(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    (cli.storage / "metadata").write_text(json.dumps({"checkpoint-ts": T_WIDENED}), encoding="utf-8")
    left = cli.run("once", "--log-level", "warning")
    assert left.code == 0
    assert "is below what was applied already" in left.err
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_paths_that_ticdc_does_not_write_are_named_and_left_alone(cli: CommandLine) -> None:
    (cli.storage / "notes.txt").write_text("x", encoding="utf-8")
    file = cli.data_file("t", T_CREATED, 1)
    file.with_name(file.name + ".tmp.5d1e").write_text("half a line", encoding="utf-8")
    left = cli.run("once", "--log-level", "warning")
    assert left.code == 0
    assert "1 path is of no form that TiCDC writes, and left alone: notes.txt" in left.err
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_names_that_are_no_text_are_left_alone(cli: CommandLine) -> None:
    """They have the form of a data file and of a schema file, and no target could record them."""
    file, schema = cli.data_file("t", T_CREATED, 1), next((cli.storage / "du" / "t" / "meta").iterdir())
    for folder, copied in (("caf\udce9/5/2026-11-21", file), ("caf\udce9/meta", schema)):
        place = cli.storage / "du" / folder
        place.mkdir(parents=True)
        (place / copied.name).write_bytes(copied.read_bytes())
    left = cli.run("once", "--log-level", "warning")
    assert left.code == 0
    assert "2 paths are of no form that TiCDC writes, and left alone" in left.err
    assert duckdb_tables(cli.target) == DEMO_TABLES
    assert cli.run("status", "--json").code == 0


# One table's files: it alone stops, and goes on once they are mended


@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        (data(lambda b: b.replace(b"\r\n", b"\r\nhello {\r\n", 1)), 3, (f"{T_FILE}:2", "not JSON")),
        (data(lambda b: b[:-30]), 3, (T_FILE, "its last line is not a JSON object")),
        (data(lambda b: b""), 3, (T_FILE, "the file is empty")),
        (data(lambda b: bytes(range(256)) * 9), 3, (T_FILE, "not a canal-JSON file")),
        (data(lambda b: b'{"a":1}\r\n', "n", N_CREATED, 1), 3, ("CDC00000000000000000001.json:1", "`type`")),
        (data(lambda b: b.replace(b'"data":[{', b'"data":null,"x":[{', 1)), 3, (f"{T_FILE}:1", "`data`")),
        (data(lambda b: b.replace(b'"commitTs":', b'"commitTs":-', 1), number=1), 3, (":1: ", "`commitTs`")),
        (schema(lambda b: b.replace(b'"u"', b'"uu"')), 3, (str(T_WIDENED), "checksum 3564072022")),
        (schema(lambda b: b[:100]), 3, (str(T_WIDENED), "the schema file is not JSON")),
        (schema(lambda b: b""), 3, (str(T_WIDENED), "the schema file is not JSON")),
        (gone(lambda cli: cli.schema_file("t", T_WIDENED)), 3, (str(T_WIDENED), "no schema file of that version")),
        (gone(lambda cli: cli.schema_file("t", T_CREATED)), 3, (str(T_CREATED), "no schema file of that version")),
        (gone(lambda cli: cli.data_file("t", T_CREATED, 1)), 5, ("file number 1 is missing before number 2",)),
        (gone(lambda cli: cli.data_file("t", T_CREATED, 3)), 5, ("file number 3 is missing before number 4",)),
    ],
    ids=[
        "a line that is no JSON", "cut off", "empty", "binary", "another object", "no data", "no commit-ts",
        "checksum", "schema file cut off", "schema file empty", "no schema file", "no first schema file",
        "no first file", "a gap",
    ],
)  # fmt: skip
def test_damage_stops_one_table_until_it_is_mended(
    damage: Damage, code: int, words: tuple[str, ...], cli: CommandLine
) -> None:
    damage(cli)
    for _ in range(2):
        left = cli.run("once", "--json")
        assert left.code == code
        (stopped,) = (name for name, state in left.states.items() if state != "ok")
        assert set(left.states) == {"du.n", "du.s", "du.t"}
        error = left.json["tables"][stopped]["error"]
        assert error.startswith(f"{stopped}: ")
        assert all(word in error for word in words), error
        # It would read the same files, and empty the table first.
        assert "storage-consumer resync " not in left.err
    status = cli.run("status", "--json").json["tables"]
    assert {name: row["state"] for name, row in status.items()} == {stopped: "stopped"}
    cli.mend()
    assert cli.run("once").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_table_with_no_schema_file_at_all_is_stopped(cli: CommandLine) -> None:
    for file in (cli.storage / "du" / "t" / "meta").iterdir():
        file.unlink()
    left = cli.run("once", "--json")
    assert (left.code, left.states) == (3, {"du.n": "ok", "du.s": "ok", "du.t": "stopped"})
    cli.mend()
    assert cli.run("once").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_damage_before_a_truncate_no_longer_matters(cli: CommandLine) -> None:
    rewrite(cli.data_file("s", S_CREATED, 1), lambda content: content[:-30])
    assert cli.run("once", "--json").states == {"du.n": "ok", "du.s": "ok", "du.t": "ok"}
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_gap_can_be_accepted(cli: CommandLine) -> None:
    cli.data_file("t", T_CREATED, 3).unlink()
    assert "file number 3 is missing" in cli.run("plan").out
    assert cli.run("once").code == 5
    assert cli.run("once", "--accept-gap-in", "*.*").code == 0


def test_a_wrong_terminator_is_named_and_nothing_of_it_is_applied(cli: CommandLine, tmp_path: Path) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text('[sink]\nprotocol = "canal-json"\nterminator = "|"\n', encoding="utf-8")
    left = cli.run("once", "--config", str(config), "--json")
    assert left.code == 3
    assert set(left.states.values()) == {"stopped"}
    assert "`terminator`" in left.err
    assert cli.run("once").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_an_index_file_alone_is_no_row_and_tells_of_the_files_in_front_of_its_own(cli: CommandLine) -> None:
    """TiCDC can write it before the file that it names."""
    for number in range(1, 7):
        cli.data_file("t", T_WIDENED, number).unlink()
    left = cli.run("once", "--json")
    assert (left.code, left.json["tables"]["du.t"]["state"]) == (5, "stopped")
    assert "file number 1 is missing" in left.json["tables"]["du.t"]["error"]
    (index,) = cli.storage.glob(f"du/t/{T_WIDENED}/*/meta/CDC.index")
    index.write_text("CDC00000000000000000001.json\n")
    left = cli.run("once", "--json")
    assert (left.code, left.json["tables"]["du.t"]["ddl"]) == (0, 1)


# DuckDB files


def test_a_folder_that_is_missing_is_told_with_the_form_of_the_uri(cli: CommandLine, tmp_path: Path) -> None:
    left = cli.run("once", "--downstream-uri", f"duckdb://{tmp_path}/replica.duckdb", "--json")
    assert left.code == 2
    assert "does not exist" in left.json["error"]
    assert f"duckdb:///{tmp_path}/replica.duckdb" in left.json["hint"]
    for folder, uri in ((tmp_path / "new one", f"duckdb:///{tmp_path}/new one"), (Path.cwd() / "no", "duckdb:///no")):
        left = cli.run("once", "--downstream-uri", f"{uri}/replica.duckdb", "--json")
        assert (left.code, left.json["hint"]) == (2, f"make it first: mkdir -p {shlex.quote(str(folder))}")


def test_another_file_is_not_overwritten(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "letter.duckdb"
    file.write_bytes(b"dear reader " * 1000)
    for command in ("once", "status", "plan"):
        left = cli.run(command, "--downstream-uri", f"duckdb:///{file}")
        assert left.code == 2
        assert "is not a DuckDB file" in left.err
    assert file.read_bytes() == b"dear reader " * 1000


@pytest.mark.parametrize(
    ("name", "content"), [("letter.json", '{"dear": "reader"}'), ("letter.csv", "dear,reader\n1,2\n")]
)
def test_a_file_of_data_is_not_taken_for_a_target(name: str, content: str, cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(content)
    for command in ("once", "status", "plan"):
        left = cli.run(command, "--downstream-uri", f"duckdb:///{file}")
        assert left.code == 2
        assert f"{name} is not a DuckDB file" in left.err
    assert file.read_text() == content


# Flags, URIs, files of settings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--upstream-uri", "cdc"), "has no scheme"),
        (("--upstream-uri", "ftp://h/cdc?protocol=canal-json"), "scheme 'ftp'"),
        (("--upstream-uri", "file://cdc?protocol=canal-json"), "three slashes"),
        (("--upstream-uri", "file:///cdc?protocol=avro"), "give canal-json or csv"),
        (("--upstream-uri", "file:///cdc?protocol=canal-json&bogus=1"), "'bogus'"),
        (("--upstream-uri", "s3://b/p?protocol=canal-json&access-key=hunter22"), "secret-access-key"),
        (("--downstream-uri", "postgres://u:hunter22@h/"), "mysql://"),
        (("--downstream-uri", "mysql://u:hunter22@h:99999/"), "port"),
        (("--downstream-uri", ""), "--downstream-uri is refused"),
        (("--worker-count", "0"), "--worker-count is refused"),
        (("--tz", "Mars"), "'Mars' is not a time zone"),
        (("--tables", "orders"), "db.table"),
        (("--checkpoint-ts", "max"), "this storage has one"),
        (("--config", "nowhere.toml"), "nowhere.toml cannot be read"),
    ],
)
def test_bad_settings_are_one_sentence(arguments: tuple[str, ...], words: str, cli: CommandLine) -> None:
    left = cli.run("once", "--json", *arguments)
    assert left.code == 2
    assert words in left.json["error"]
    assert "hunter22" not in left.out + left.err
    assert not (cli.storage.parent / "replica.duckdb").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[sink\n", "is not TOML"),
        ("[sinks]\n", "did you mean sink?"),
        ('[consumer]\nflush-intervall = "1s"\n', "did you mean flush-interval?"),
        ("[consumer]\nbogus = 1\n", "[consumer] bogus is not a setting; known are accept-gap-in"),
    ],
)
def test_a_misspelt_file_is_refused_by_name(content: str, words: str, cli: CommandLine, tmp_path: Path) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text(content, encoding="utf-8")
    left = cli.run("plan", "--config", str(config), "--json")
    assert left.code == 2
    assert str(config) in left.json["error"]
    assert words in left.json["error"]


def test_an_unknown_flag_is_refused(cli: CommandLine) -> None:
    left = cli.run("once", "--bogus")
    assert left.code == 2
    assert "--bogus" in left.err


# Commands by hand


def refused(left: Left, words: str) -> None:
    assert left.code == 2
    assert words in left.err


def test_commands_by_hand_say_what_there_is(cli: CommandLine) -> None:
    refused(cli.run("skip-ddl", "--table", "du.t", "--version", str(T_CREATED)), "run once first")
    refused(cli.run("resync", "--table", "du.zz"), "there is no table du.zz in the storage")
    assert cli.run("backfill").code == 0
    refused(cli.run("backfill"), "already has progress")
    refused(cli.run("skip-ddl", "--table", "du.t", "--version", "5"), "no statement of du.t with version 5 is pending")
    assert cli.run("resync", "--table", "du.t", "--json").states["du.t"] == "ok"
    assert duckdb_tables(cli.target) == DEMO_TABLES


@pytest.mark.parametrize("command", ["once", "plan"])
def test_another_protocol_than_the_files_names_say_is_refused_before_anything_runs(
    cli: CommandLine, command: str
) -> None:
    wrong = f"file://{cli.storage}?protocol=csv"
    left = cli.run(command, "--upstream-uri", wrong)
    assert left.code == 2
    assert "the settings say protocol csv" in left.err
    assert "has the name of a canal-json file" in left.err
    assert "--accept-gap" not in left.err
    assert cli.run("once", "--upstream-uri", wrong.replace("csv", "canal-json")).code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


@pytest.mark.parametrize("flag", ["--upstream-uri", "--downstream-uri"])
def test_a_pasted_command_whose_secret_was_masked_says_so(cli: CommandLine, flag: str) -> None:
    masked = {
        "--upstream-uri": "s3://b/p?protocol=canal-json&access-key=***&secret-access-key=***",
        "--downstream-uri": "mysql://root:***@127.0.0.1:1/",
    }
    left = cli.run("once", flag, masked[flag])
    assert left.code == 2
    assert f"{flag} has *** instead of a secret" in left.err
    assert f"STORAGE_CONSUMER{flag[1:].upper().replace('-', '_')}" in left.err
