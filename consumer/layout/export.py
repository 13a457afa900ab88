"""Reads an export of Dumpling: the names of its files, its `metadata`, and its statements.

::

    metadata                                       when it began and ended, and the TSO of its rows (Pos)
    DB-schema-create.sql                           CREATE DATABASE
    DB.TABLE-schema.sql                            CREATE TABLE; of a view a table that stands in for it
    DB.VIEW-schema-view.sql                        CREATE VIEW, between statements of the session
    DB.SEQUENCE-schema-sequence.sql                and more that a changefeed does not replicate either
    DB.TABLE.NUMBER.sql                            rows; .csv

In names ``%XX`` stands for characters that a file name cannot have, and for dots. All but `metadata` can be compressed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from consumer.ddl.declared import created_columns
from consumer.ddl.definitions import statement_of
from consumer.ddl.references import created_object
from consumer.ddl.tokens import tokenize
from consumer.errors import BadConfig, CorruptFile, DdlRefused
from consumer.layout.schema_file import VIEW_COLUMN_TYPE, root_of
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.export import DumplingFormat
from consumer.model.files import DataFile, Folder, SchemaFile, StoredFile
from consumer.model.names import TableName

METADATA = "metadata"
_PACKED = r"(?:\.gz|\.zst|\.snappy)?"
_DATABASE = re.compile(rf"([^./]+)-schema-create\.sql{_PACKED}")
_TABLE = re.compile(rf"([^./]+)\.([^./]+)-schema(-view)?\.sql{_PACKED}")
_DATA = re.compile(rf"([^./]+)\.([^./]+)\.([0-9]+)(\.(?:sql|csv){_PACKED})")
_OF_CHUNK = 4
_IN_CHUNKS = 13
"""The digits of a number with --rows and --filesize; the last ones number the file within its chunk."""
_PASSED = re.compile(
    rf"[^./]+\.[^./]+-schema-(?:sequence|triggers|post)\.sql{_PACKED}|[^./]+-placement-policy-create\.sql{_PACKED}"
    r"|(?:.*/)?(?:checksum|dumpling\.log|\..*)"
)
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_POSITION = re.compile(r"^\s*Pos: (.+?)\s*$", re.MULTILINE)
_LOG = re.compile(r"^\s*Log: (.+?)\s*$", re.MULTILINE)
_TTL = re.compile(r"TTL_ENABLE\s*=\s*'ON'", re.IGNORECASE)
_AGAIN = "export again, and give the folder when Dumpling has ended"


@dataclass(frozen=True, slots=True)
class ExportFiles:
    """The files of an export. `statements` are the files with statements, in the order in which they run; `rows` are
    the files with the rows of each table."""

    statements: Mapping[TableName, StoredFile]
    views: Mapping[TableName, StoredFile]
    rows: Mapping[TableName, Sequence[StoredFile]]

    @property
    def tables(self) -> Sequence[TableName]:
        """All tables, without databases and views."""
        return [name for name in self.statements if name.table and name not in self.views]


def export_moment(metadata: str) -> str:
    """Returns the moment of the rows, as `metadata` has it: a TSO, or the time that --snapshot gave. Raises
    BadConfig."""
    if "Started dump at:" not in metadata:
        raise BadConfig(
            "it is no export of Dumpling: its `metadata` does not tell when one began",
            hint="give the folder that Dumpling wrote to; the changefeed's is that of --upstream-uri",
        )
    if "Finished dump at:" not in metadata:
        raise BadConfig("the export is not complete: its `metadata` has no line 'Finished dump at'", hint=_AGAIN)
    moments, logs = {*_POSITION.findall(metadata)}, {*_LOG.findall(metadata)}
    if logs - {"tidb-binlog"} or not moments:
        raise BadConfig(
            f"the `metadata` of the export names no TSO of TiDB ({', '.join(sorted(logs)) or 'no log'})",
            hint="give an export that Dumpling made of the changefeed's TiDB cluster",
        )
    if len(moments) > 1:
        raise BadConfig(
            f"the `metadata` of the export names several moments: {', '.join(sorted(moments))}",
            hint="export again with Dumpling's option `consistency` set to snapshot, for rows of one moment",
        )
    (moment,) = map(str, moments)
    return moment


def classify_files(
    files: Iterable[StoredFile], wanted: Callable[[TableName], bool] = lambda name: True, chunks: bool = False
) -> ExportFiles:
    """Returns the files by their kind. `chunks` means that Dumpling was called with --rows. Raises BadConfig if a name
    is none of Dumpling's, if rows have no CREATE TABLE, and if a file with rows of a table that is `wanted` is missing,
    or belongs to another export."""
    databases: dict[TableName, StoredFile] = {}
    tables: dict[TableName, StoredFile] = {}
    views: dict[TableName, StoredFile] = {}
    rows: dict[TableName, list[_Numbered]] = {}
    for file in sorted(files, key=lambda file: file.path):
        if match := _DATABASE.fullmatch(file.path):
            databases[TableName(_unescaped(match[1]), "")] = file
        elif match := _TABLE.fullmatch(file.path):
            (views if match[3] else tables)[_name(match)] = file
        elif match := _DATA.fullmatch(file.path):
            rows.setdefault(_name(match), []).append(_Numbered(int(match[3]), match[3], match[4], file))
        elif file.path != METADATA and not _PASSED.fullmatch(file.path):
            raise BadConfig(
                f"the export has a file whose name Dumpling does not give: {file.path}",
                hint="export without Dumpling's options output-filename-template and sql, as SQL or CSV, and keep other"
                " files out of the folder",
            )
    if orphans := sorted(rows.keys() - tables.keys()):
        raise BadConfig(
            f"the export has rows of {orphans[0]}, but not its CREATE TABLE",
            hint="export without Dumpling's option no-schemas",
        )
    for name, numbered in rows.items():
        numbered.sort()
        if wanted(name):
            _check_numbers(numbered, chunks)
    data = {name: [entry.file for entry in numbered] for name, numbered in rows.items()}
    return ExportFiles(databases | tables | views, views, data)


class _Numbered(NamedTuple):
    """A file of a table's rows, by its number. `ending` is what follows the number in its name."""

    number: int
    digits: str
    ending: str
    file: StoredFile


def _check_numbers(files: Sequence[_Numbered], chunks: bool) -> None:
    """Raises BadConfig if files are missing or of two exports. One call of Dumpling gives all files of a table one
    form, and numbers them from 0 on. With --rows it numbers chunks, of which those without rows have no file, and with
    --filesize also the files of each chunk."""
    first = files[0]
    if empty := next((entry.file.path for entry in files if not entry.file.size), None):
        raise BadConfig(
            f"{empty} is empty, and Dumpling writes no file without rows",
            hint="copy it again from where Dumpling wrote it",
        )
    form = (len(first.digits), first.ending)
    if other := next((entry for entry in files if (len(entry.digits), entry.ending) != form), None):
        raise BadConfig(
            f"{first.file.path} and {other.file.path} are of two exports",
            hint="export again into an empty folder: Dumpling leaves what is there",
        )
    in_chunks = form[0] == _IN_CHUNKS
    due, chunk = 0, ""
    for entry in files if in_chunks or not chunks else ():
        if in_chunks and (own_chunk := entry.digits[:-_OF_CHUNK]) != chunk:
            due, chunk = int(own_chunk) * 10**_OF_CHUNK, own_chunk
        if entry.number != due:
            lost = entry.file.path.replace(f".{entry.digits}{entry.ending}", f".{due:0{form[0]}}{entry.ending}")
            chunked = "; where Dumpling was called with its option rows, say so in the export's URI, as ?rows=200000"
            raise BadConfig(
                f"the export lacks {lost}",
                hint=f"copy it from where Dumpling wrote it{'' if in_chunks else chunked}",
            )
        due += 1


def _name(match: re.Match[str]) -> TableName:
    return TableName(_unescaped(match[1]), _unescaped(match[2]))


def _unescaped(name: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), name)


def schema_files(
    files: ExportFiles, texts: Mapping[TableName, str], form: DumplingFormat
) -> tuple[Sequence[SchemaFile], Mapping[TableName, CorruptFile | DdlRefused]]:
    """Returns the statements as those of a changefeed, of moments before all rows: databases, tables, then views, each
    after those that it shows. Also returns the tables and views whose statement cannot be read. Raises CorruptFile for
    a database."""
    places = {name: 1 if name.table else 0 for name in files.statements if name not in files.views}
    places |= {name: place for place, of_place in enumerate(_in_order(files.views, texts), 2) for name in of_place}
    schemas, refused = list[SchemaFile](), dict[TableName, CorruptFile | DdlRefused]()
    for name, place in places.items():
        version, is_view = form.statement_version(place), name in files.views
        shown = shown_names([texts[name]]) if is_view else ()
        if lacking := next((other for other in refused if other.table.lower() in shown), None):
            why = f"it shows {lacking}, whose statement cannot be read"
            refused[name] = DdlRefused(why, table=str(name), path=files.statements[name].path)
            continue
        try:
            schemas.append(_schema_file(files.statements[name], name, texts[name], version, is_view))
        except (CorruptFile, DdlRefused) as error:
            if not name.table:
                raise
            refused[name] = error
    return schemas, refused


def data_files(files: ExportFiles, schemas: Iterable[SchemaFile]) -> Mapping[str, Sequence[DataFile]]:
    """Returns the files with rows, by root. Those of a table are numbered from 1 on."""
    folders = {schema.name: Folder(schema.root, schema.version) for schema in schemas}
    return {
        folders[name].root: [
            DataFile(folders[name], number, file.path, file.size, file.stamp, file.modified)
            for number, file in enumerate(row_files, 1)
        ]
        for name, row_files in files.rows.items()
        if name in folders
    }


def shown_names(views: Iterable[str]) -> set[str]:
    """Returns the names in statements that create views, in lower case: those of what they show, and others."""
    return {token.name.lower() for view in views for token in tokenize(view) if token.is_name}


def _in_order(views: Iterable[TableName], texts: Mapping[TableName, str]) -> Iterator[Sequence[TableName]]:
    """Yields views after those that they show, in groups. A view that names another one without showing it only waits
    for it."""
    remaining = list(views)
    named = {name: shown_names([texts[name]]) for name in remaining}
    while remaining:
        free = [n for n in remaining if not any(o.table.lower() in named[n] for o in remaining if o != n)] or remaining
        yield free
        remaining = [name for name in remaining if name not in free]


_CREATES = {"DATABASE": Action.CREATE_SCHEMA, "TABLE": Action.CREATE_TABLE, "VIEW": Action.CREATE_VIEW}


def _schema_file(file: StoredFile, name: TableName, text: str, version: int, is_view: bool) -> SchemaFile:
    kind = "VIEW" if is_view else "TABLE" if name.table else "DATABASE"
    query = _statement(file, text, kind)
    columns: tuple[Column, ...] = ()
    try:
        if kind == "TABLE":
            columns = created_columns(statement_of(query))
    except DdlRefused as error:
        raise DdlRefused(error.message, table=str(name), path=file.path, code=error.code) from error
    if is_view:
        columns = (Column("view", VIEW_COLUMN_TYPE),)
    root = root_of(name.database, name.table)
    checksum = zlib.crc32(query.encode())
    return SchemaFile(file.path, root, *name, version, checksum, query, int(_CREATES[kind]), columns)


def _statement(file: StoredFile, text: str, kind: str) -> str:
    """Returns the one statement of this kind among those of a file, without its end. Raises CorruptFile."""
    begin = 0
    tokens = tokenize(text)
    for token in (token for token in tokens if token.text == ";"):
        statement_tokens = [t for t in tokens if begin <= t.start < token.start]
        begin = token.end
        if (
            statement_tokens
            and statement_tokens[0].word == "CREATE"
            and (place := created_object(statement_tokens)) < len(statement_tokens)
            and statement_tokens[place].word == kind
        ):
            return _TTL.sub("TTL_ENABLE='OFF'", text[statement_tokens[0].start : token.start].rstrip())
    raise CorruptFile(f"it has no whole CREATE {kind}", path=file.path, hint=_AGAIN)
