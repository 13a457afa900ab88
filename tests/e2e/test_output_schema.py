"""docs/output.schema.json holds for what every command prints with --json, whatever becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

from tests.support.command_line import T_WIDENED, CommandLine, Left

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "output.schema.json").read_text(encoding="utf-8"))


def checked(left: Left, kind: str) -> dict[str, Any]:
    """What was printed, held to the schema as a whole and to the part for `kind`."""
    body = left.json
    jsonschema.Draft202012Validator(SCHEMA).validate(body)
    part = {"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(part).validate(body)
    assert body["exit_code"] == left.code
    assert_texts(body)
    return body


def assert_texts(value: Any) -> None:
    for name, member in _members(value):
        if name.endswith("_str"):
            number = value[name.removesuffix("_str")]
            assert member == (None if number is None else str(number))
        assert_texts(member)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from (("", member) for member in value)


def test_every_command_prints_what_the_schema_says(cli: CommandLine) -> None:
    checked(cli.run("status", "--json"), "StatusResult")
    checked(cli.run("check", "--json"), "CheckResult")
    planned = checked(cli.run("plan", "--json"), "PlanResult")
    assert {step["kind"] for step in planned["steps"]} == {"ddl", "load"}
    done = checked(cli.run("once", "--json"), "RunResult")
    assert all(table["rows"] == table["puts"] + table["deletes"] for table in done["tables"].values())
    assert all(table["changes"] >= table["rows"] > 0 for table in done["tables"].values())
    assert done["lag_seconds"] > 0
    checked(cli.run("once", "--json"), "RunResult")
    checked(cli.run("verify", "--json"), "VerifyReport")
    checked(cli.run("verify", "--repair", "--json"), "VerifyReport")
    checked(cli.run("resync", "--table", "du.t", "--json"), "RunResult")
    checked(
        cli.run("replay", "--from-ts", "470611618363867137", "--downstream-uri", "memory://r", "--json"), "RunResult"
    )
    checked(cli.run("backfill", "--json"), "Failure")
    inspected = ["--upstream-uri", f"file://{cli.storage}", "--time-range", "--json"]
    checked(cli.raw("inspect", *inspected), "InspectResult")
    assert checked(cli.run("changes", "--table", "du.t", "--json"), "ChangesResult")["changes"] > 10
    undone = checked(cli.run("undo", "--table", "du.t", "--from-ts", "2026-11-21T06:00:57Z", "--json"), "UndoResult")
    assert undone["rows"] > 0
    held = checked(cli.run("status", "--json"), "StatusResult")
    assert held["tables_ok"] == 3
    assert held["lag_seconds"] > 0


def test_stopped_tables_and_errors_too(cli: CommandLine) -> None:
    cli.schema_file("t", T_WIDENED).write_text("{", encoding="utf-8")
    stopped = checked(cli.run("once", "--json"), "RunResult")
    assert stopped["tables"]["du.t"]["state"] == "stopped"
    assert checked(cli.run("plan", "--json"), "PlanResult")["stopped"].keys() == {"du.t"}
    assert checked(cli.run("status", "--check", "--json"), "StatusResult")["exit_code"] == 3
    checked(cli.run("once", "--name", "", "--json"), "Failure")
    checked(cli.run("once", "--no-such-flag", "--json"), "Failure")
    (cli.storage / "metadata").unlink()
    checked(cli.run("once", "--json"), "Failure")
    assert checked(cli.run("status", "--check", "--json"), "StatusResult")["checkpoint_ts"] is None


def test_a_name_that_is_not_there_is_told_with_those_that_are(cli: CommandLine) -> None:
    assert cli.run("once", "--name", "blue").code == 0
    found = checked(cli.run("status", "--json", "--check"), "StatusResult")
    assert found["exit_code"] == 4
    assert any("under the name 'default'; it has some under blue" in note for note in found["notes"])
