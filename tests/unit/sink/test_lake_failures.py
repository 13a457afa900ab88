"""What a lake's command says where Spark or its JVM fails."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from consumer.errors import ConsumerError, JobBroken, TargetUnavailable
from consumer.model.names import TableName
from consumer.sink.lake.failures import told

TABLE = TableName("d", "t")


class OfADeadMachine(Py4JError):
    """Its text is in the JVM that it comes from."""

    def __str__(self) -> str:
        raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OfADeadMachine(), JobBroken),
        (Py4JNetworkError("Answer from Java side is empty"), JobBroken),
        (ConnectionRefusedError(111, "Connection refused"), JobBroken),
        (Py4JError("java.io.IOException: disk"), TargetUnavailable),
    ],
)
@pytest.mark.parametrize("table", [TABLE, None])
def test_a_failure_has_a_name(error: Exception, kind: type[ConsumerError], table: TableName | None) -> None:
    with pytest.raises(kind), told(table):
        raise error
