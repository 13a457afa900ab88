"""Options that are missing, or that cannot be correct: refused before anything is executed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from consumer.codec import protocol_of_file
from consumer.codec.protocol import Undecided
from consumer.errors import BadConfig
from consumer.model.columns import Column
from consumer.model.files import DataFile
from consumer.model.names import TableName
from consumer.plan.assembly import Assembly


def check_protocol(protocol: str, assembly: Assembly) -> None:
    """Raises BadConfig where every file's name says that it holds another protocol's rows."""
    others: dict[str, DataFile] = {}
    for file in itertools.chain.from_iterable(assembly.files.values()):
        found = protocol_of_file(file.path)
        if found is not None and found.name == protocol:
            return  # of the first file, as a rule: what the others are called is of no account
        if found is not None:
            others[found.name] = file
    for other, file in others.items():
        raise BadConfig(
            f"the settings say protocol {protocol}, and {file.path} has the name of a {other} file, as all others have",
            hint=f"give protocol={other} in --upstream-uri or in the file of --config; inspect prints what such a file"
            " must hold",
        )


def check_decided(undecided: Sequence[Undecided], assembly: Assembly) -> None:
    """Raises BadConfig where rows of a table cannot be read without an option of `undecided`."""
    for option in undecided:
        for table, column in itertools.islice(_columns(assembly, option.needs), 1):
            message = option.message.format(column=f"{table}.{column}")
            raise BadConfig(message, hint=option.hint, table=str(table))


def _columns(assembly: Assembly, needs: Callable[[Column], bool]) -> Iterator[tuple[TableName, str]]:
    """The columns of tables with files that `needs` says yes to."""
    for name in assembly.files:
        if assembly.wanted(name):
            for schema in assembly.catalog.by_table.get(name, ()):
                yield from ((name, column.name) for column in schema.columns if needs(column))
