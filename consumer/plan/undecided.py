"""Options that nobody gave, or that cannot be right: refused before anything is executed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from consumer.errors import BadConfig
from consumer.model.columns import Column, Family
from consumer.model.files import DataFile
from consumer.model.load import Undecided
from consumer.model.names import TableName
from consumer.plan.assembly import Assembly

_PROTOCOLS = {"json": "canal-json", "csv": "csv"}
"""By the extension of its files' names."""


def check_protocol(protocol: str, assembly: Assembly) -> None:
    """Raises BadConfig where every file's name says that it holds another protocol's rows."""
    others: dict[str, DataFile] = {}
    for file in itertools.chain.from_iterable(assembly.files.values()):
        found = _PROTOCOLS.get(file.path.rpartition(".")[2])
        if found == protocol:
            return  # of the first file, as a rule: what the others are called is of no account
        if found is not None:
            others[found] = file
    for other, file in others.items():
        raise BadConfig(
            f"the settings say protocol {protocol}, and {file.path} has the name of a {other} file, as all others have",
            hint=f"give protocol={other} in --upstream-uri or in the file of --config; inspect prints what such a file"
            " must hold",
        )


def check_decided(undecided: Undecided, assembly: Assembly) -> None:
    """Raises BadConfig where rows of a table cannot be read without an option of `undecided`."""
    if undecided.encoding and (place := next(_columns(assembly, _is_binary), None)):
        raise BadConfig(
            f"the binary values of {place[0]}.{place[1]} are base64 or hex, and nobody says which:"
            " binary-encoding-method is not set",
            hint="give the changefeed's own TOML with --config, or set binary-encoding-method in its [sink.csv], or"
            " STORAGE_CONSUMER_CSV_BINARY_ENCODING_METHOD; TiCDC's default is base64",
            table=str(place[0]),
        )
    if undecided.null and (place := next(_columns(assembly, lambda column: column.nullable), None)):
        raise BadConfig(
            f"{place[0]}.{place[1]} may be NULL, and nobody says how: without quotes a text can look the same, and null"
            " is not set",
            hint="give the changefeed's own TOML with --config, or set null in its [sink.csv], or"
            " STORAGE_CONSUMER_CSV_NULL; TiCDC's default is \\N",
            table=str(place[0]),
        )


def _columns(assembly: Assembly, needs: Callable[[Column], bool]) -> Iterator[tuple[TableName, str]]:
    """The columns of tables with files that `needs` says yes to."""
    for name in assembly.files:
        if assembly.wanted(name):
            for schema in assembly.catalog.by_table.get(name, ()):
                yield from ((name, column.name) for column in schema.columns if needs(column))


def _is_binary(column: Column) -> bool:
    try:
        return column.family is Family.BINARY
    except KeyError:
        return False  # of a view
