"""One rule for stopped tables: a statement or missing files are exit code 5, all else is 3, and 5 counts before 3."""

from __future__ import annotations

import pytest

from tests.e2e.test_output_schema import checked
from tests.support.shop import Shop


def damaged(shop: Shop) -> None:
    file = shop.feed.puts("d.it's", 2, {21: (7, "7")})
    file.write_bytes(file.read_bytes()[:-9])


def missing(shop: Shop) -> None:
    shop.feed.create("d.u", 16)
    shop.feed.puts("d.u", 16, {17: (1, "1")})
    file = shop.feed.puts("d.u", 16, {18: (2, "2")})
    shop.feed.puts("d.u", 16, {19: (3, "3")})
    file.unlink()


@pytest.mark.parametrize(
    ("stops", "code"), [((damaged,), 3), ((missing,), 5), ((damaged, missing), 5)], ids=["3", "5", "5 and 3"]
)
def test_what_stops_a_table_is_its_exit_code(stops: tuple[object, ...], code: int, shop: Shop) -> None:
    for stop in stops:
        stop(shop)  # type: ignore[operator]
    left = shop.once(30, "--json")
    assert left.code == code
    body = checked(left, "RunResult")
    if code == 5:
        assert (body["code"], body["error"]) == ("files-missing", body["tables"]["d.u"]["error"])
        assert "number 2 is missing" in body["error"]
        assert body["hint"]
    else:
        assert (body["code"], body["error"]) == (None, None)
    assert shop.run("status", "--check").code == 3
    told = shop.once(30).err
    assert told.count("number 2 is missing") == code // 5, "each reason is told once"


def test_a_run_that_would_fail_is_an_error_of_check(shop: Shop) -> None:
    missing(shop)
    shop.feed.checkpoint(30)
    body = checked(shop.run("check", "--json"), "CheckResult")
    assert body["exit_code"] == 5
    assert "d.u would stop: " in body["error"]
    failed = [line["code"] for line in body["lines"] if line["verdict"] == "fail"]
    assert (body["code"], failed) == ("files-missing", ["files-missing"])


def test_check_tells_the_code_of_the_error_that_a_run_would_meet(shop: Shop) -> None:
    shop.feed.checkpoint(30)
    assert shop.once(30).code == 0
    other = shop.run("check", "--upstream-uri", f"file://{shop.cli.storage}/other?protocol=canal-json", "--json")
    body = checked(other, "CheckResult")
    assert (body["exit_code"], body["code"]) == (5, "checkpoint-missing"), body


def test_help_and_docs_say_the_rule(shop: Shop) -> None:
    assert "5 a person has to decide: a table stopped for a refused statement" in " ".join(
        shop.cli.raw("--help").out.split()
    )
