"""The committed schema of what --json prints is what the models generate."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from consumer.model.names import TableName
from consumer.model.steps import TargetDdl
from consumer.results import PlannedStep, PlanResult, RunResult, TableResult, printed, schema

COMMITTED = json.loads((Path(__file__).parents[2] / "docs" / "output.schema.json").read_text(encoding="utf-8"))
T = TableName("a.b", "t")


def test_the_committed_schema_is_of_these_models() -> None:
    assert schema() == COMMITTED, "run python -m consumer.results docs/output.schema.json"
    jsonschema.Draft202012Validator.check_schema(COMMITTED)


def test_every_member_that_needs_words_has_them_from_its_docstring() -> None:
    table = COMMITTED["$defs"]["TableResult"]["properties"]
    assert table["watermark"]["description"] == "The commit-ts up to which the table is complete."
    assert table["rows"]["description"].startswith("puts + deletes")
    assert COMMITTED["$defs"]["RunResult"]["properties"]["target_seconds"]["description"].startswith("How long writes")


def test_a_result_is_printed_with_the_texts_of_its_tsos() -> None:
    result = RunResult(checkpoint_ts=9, tables={T: TableResult(watermark=7, seconds=0.12345)}, ended=1)
    body = printed(result)
    jsonschema.Draft202012Validator(COMMITTED).validate(body)
    assert (body["checkpoint_ts"], body["checkpoint_ts_str"], body["error"]) == (9, "9", None)
    table = body["tables"]["a.b.t"]
    assert (table["watermark_str"], table["version"], table["version_str"], table["seconds"]) == (
        "7",
        None,
        None,
        0.123,
    )
    assert "ended" not in body


def test_a_plan_has_what_the_target_would_run() -> None:
    step = PlannedStep(kind="ddl", table=T, from_ts=1, to_ts=1, touches=(T,), target=TargetDdl(("DROP",), note="n"))
    body = printed(PlanResult(checkpoint_ts=1, steps=(step,)))
    jsonschema.Draft202012Validator(COMMITTED).validate(body)
    assert body["steps"][0]["target"] == {"statements": ["DROP"], "note": "n", "error": "", "collations": []}
    assert body["steps"][0]["touches"] == ["a.b.t"]
