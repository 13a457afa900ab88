"""Which rights a user lacks, as SHOW GRANTS tells them: MariaDB's and MySQL's ways of writing it."""

from __future__ import annotations

import pytest

from consumer.sink.mysql.server.readiness import rights

OWN = "GRANT ALL PRIVILEGES ON `storage_consumer`.* TO `u`@`%`"
ALL = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, LOCK TABLES,"
    " CREATE VIEW"
)


@pytest.mark.parametrize(
    ("grants", "lacking"),
    [
        ([OWN, "GRANT ALL PRIVILEGES ON `shop`.* TO `u`@`%`"], []),
        ([f"GRANT {ALL} ON *.* TO `u`@`%`"], []),
        ([OWN, f"GRANT {ALL} ON `s%`.* TO `u`@`%` WITH GRANT OPTION"], []),
        ([OWN, f"GRANT {ALL} ON `sho_`.* TO `u`@`%`"], []),
        ([OWN, f"GRANT {ALL} ON `sho\\_`.* TO `u`@`%`"], ["shop"]),
        ([OWN, f"GRANT {ALL} ON `shop`.`orders` TO `u`@`%`"], ["shop"]),
        ([OWN, f"GRANT {ALL.replace('UPDATE', 'UPDATE (`v`, `w`)')} ON `shop`.* TO `u`@`%`"], ["shop"]),
        ([f"GRANT {ALL} ON `shop`.* TO `u`@`%`"], ["storage_consumer"]),
        (["GRANT USAGE ON *.* TO `u`@`%`"], ["shop", "storage_consumer"]),
    ],
)
def test_what_is_lacking(grants: list[str], lacking: list[str]) -> None:
    found = [line for line in rights(grants, "u@%", ["shop"]) if line.verdict != "ok"]
    assert [line.text.rpartition(" on ")[2] for line in found] == lacking
    assert {line.verdict for line in found} <= {"fail"}
    assert all(line.fix.endswith(f"ON `{name}`.* TO 'u'@'%';") for line, name in zip(found, lacking, strict=True))


def test_rights_that_a_role_may_have_are_no_failure() -> None:
    (told, _) = rights(["GRANT USAGE ON *.* TO `u`@`%`", "GRANT `writer`@`%` TO `u`@`%`"], "u@%", ["shop"])
    assert (told.verdict, told.text.endswith("unless one of its roles has them")) == ("warn", True)
