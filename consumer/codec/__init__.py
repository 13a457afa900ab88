"""Decodes what TiCDC and Dumpling write to change tables (see `change_table`). These are the protocols of the files."""

from __future__ import annotations

from consumer.codec.canal_json.protocol import CANAL_JSON
from consumer.codec.csv.protocol import CSV
from consumer.codec.dumpling.protocol import DUMPLING
from consumer.codec.protocol import RowProtocol
from consumer.model.load import Dialect

PROTOCOLS = {protocol.name: protocol for protocol in (CANAL_JSON, CSV)}
"""The protocols of changefeeds, by name."""


def protocol_of(dialect: Dialect) -> RowProtocol:
    return DUMPLING if dialect.protocol == DUMPLING.name else PROTOCOLS[dialect.protocol]


def protocols_of_file(path: str) -> list[RowProtocol]:
    """Returns the protocols whose files have such a name: several can share an extension."""
    return [protocol for protocol in PROTOCOLS.values() if path.endswith(f".{protocol.extension}")]
