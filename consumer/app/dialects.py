"""How a changefeed writes its rows, as the heads of some of its files show it together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from consumer.codec.csv.shapes import Shape
from consumer.codec.sniff import Sniffed, sniff_csv, sniff_json
from consumer.model.files import DataFile, SchemaFile
from consumer.model.inspection import Detected
from consumer.model.load import CsvFormat, Dialect
from consumer.plan.catalog import Catalog
from consumer.plan.survey import sample
from consumer.storage.files import Files

_SAMPLES = 24
_HEADS = (64 << 10, 4 << 20)
"""How much of a file is read to know its dialect: more where a row is longer."""
_OPTIONS = ("terminator", "include-commit-ts", "output-old-value", "output-handle-key")


def with_rows(
    files: Files, detected: Detected, data: Sequence[DataFile], catalog: Catalog
) -> tuple[Detected, list[str]]:
    """`detected` with what the rows of some files show, and what does not fit together or is not shown."""
    chosen = list(sample(data, catalog, _SAMPLES))
    with ThreadPoolExecutor(8, thread_name_prefix="inspect") as pool:
        found = list(pool.map(lambda pair: _sniff(files, catalog, *pair), chosen))
    seen = [sniffed for sniffed in found if sniffed is not None]
    doubts = [
        f"{file.path} is not of a form that TiCDC writes: {_expected(file, schema)}"
        for (file, schema), sniffed in zip(chosen, found, strict=True)
        if sniffed is None
    ]
    if not seen:
        return replace(detected, sampled=len(chosen)), doubts
    kinds = Counter((_marks(s), s.commit_ts) for s in seen).most_common()
    alike = [s for s in seen if (_marks(s), s.commit_ts) == kinds[0][0]]
    agreed = _agreed(alike)
    if len(kinds) > 1 or agreed is None:
        doubts.append("files differ in protocol or options: the changefeed was changed, or two of them write here")
    dialect, commit_ts, unproven = alike[0].dialect, alike[0].commit_ts, tuple[str, ...]()
    if dialect.csv is not None:
        readings = agreed or [list(alike[0].readings)]
        dialect, unproven = _csv(dialect.csv, readings)
        commit_ts = readings[0][0].include_commit_ts
    doubts += _unproven(unproven)
    detected = replace(detected, unproven=(*detected.unproven, *unproven))
    return replace(detected, dialect=dialect, commit_ts=commit_ts, sampled=len(chosen)), doubts


def _marks(sniffed: Sniffed) -> Dialect:
    """What every file shows by itself."""
    return sniffed.dialect if sniffed.dialect.csv is None else replace(sniffed.dialect, terminator=b"")


def _agreed(alike: Sequence[Sniffed]) -> list[list[Shape]] | None:
    """The readings that no file contradicts, each as all files have it, the likeliest first; None if there is none."""
    ranks = [{shape.options: shape for shape in reversed(sniffed.readings)} for sniffed in alike]
    common = [shape.options for shape in alike[0].readings if all(shape.options in rank for rank in ranks)]
    groups = [[rank[options] for rank in ranks] for options in dict.fromkeys(common)]
    groups = [group for group in groups if len({s.null for s in group} - {None}) < 2 and len(_encodings(group)) < 2]
    groups.sort(key=lambda group: -sum(shape.exact for shape in group))
    return groups if groups or alike[0].dialect.csv is None else None


def _csv(csv: CsvFormat, groups: Sequence[Sequence[Shape]]) -> tuple[Dialect, tuple[str, ...]]:
    """The likeliest dialect, and the keys on which the readings differ or that no value shows."""
    first = groups[0][0]
    kinds = [{group[0].options[place] for group in groups} for place in range(len(_OPTIONS))]
    unproven = [key for key, found in zip(_OPTIONS, kinds, strict=True) if len(found) > 1]
    nulls = {frozenset(shape.null for shape in group if shape.null is not None) for group in groups}
    encodings = {frozenset(_encodings(group)) for group in groups}
    null = next(iter(next(iter(nulls))), None) if len(nulls) == 1 else None
    encoding = next(iter(next(iter(encodings))), "") if len(encodings) == 1 else ""
    unproven += ["null"] * (null is None) + ["binary-encoding-method"] * (not encoding)
    found = replace(
        csv,
        null=csv.null if null is None else null.decode(errors="replace"),
        include_commit_ts=first.include_commit_ts,
        output_old_value=first.output_old_value,
        output_handle_key=first.output_handle_key,
        binary_encoding=encoding or csv.binary_encoding,
    )
    return Dialect("csv", first.terminator, found), tuple(unproven)


def _encodings(group: Sequence[Shape]) -> set[str]:
    return {shape.encoding for shape in group} - {""}


def _unproven(keys: Sequence[str]) -> Iterator[str]:
    if keys:
        yield f"the files do not prove {', '.join(keys)}: say in the TOML what the changefeed has"


def _expected(file: DataFile, schema: SchemaFile) -> str:
    return "no row of its table was found in it" if file.path.endswith(".csv") else f"no JSON row of {schema.name}"


def _sniff(files: Files, catalog: Catalog, file: DataFile, schema: SchemaFile) -> Sniffed | None:
    is_csv = file.path.endswith(".csv")
    virtual = _virtual(schema, catalog) if is_csv else None
    for size in _HEADS:
        content = files.read(file, 0, min(size, file.size))
        whole = len(content) == file.size
        found = sniff_csv(content, whole, schema, virtual) if is_csv else sniff_json(content, whole)
        if found is not None or whole:
            return found
    return None


def _virtual(schema: SchemaFile, catalog: Catalog) -> tuple[str, ...] | None:
    """The virtual columns of a table, in lower case; None where its statements do not tell of every column."""
    declared = catalog.declared(schema)
    if any(column.name.lower() not in declared for column in schema.columns if not column.hidden):
        return None
    return tuple(name for name, definition in declared.items() if definition.virtual)
