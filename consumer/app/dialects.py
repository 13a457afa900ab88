"""How a changefeed writes its rows, found from the beginnings of some of its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from consumer.codec import protocol_of, protocol_of_file
from consumer.codec.protocol import Sniffed
from consumer.model.files import DataFile, SchemaFile
from consumer.plan.catalog import Catalog
from consumer.plan.survey import sample
from consumer.results import Detected
from consumer.storage.files import Files

_SAMPLES = 24
_HEADS = (64 << 10, 4 << 20)
"""How much of a file is read to know its dialect: more where a row is longer."""


def with_rows(
    files: Files, detected: Detected, data: Sequence[DataFile], catalog: Catalog
) -> tuple[Detected, list[str]]:
    """`detected` with what the rows of some files show, and notes of what does not fit together or is not proven."""
    chosen = list(sample(data, catalog, _SAMPLES))
    with ThreadPoolExecutor(8, thread_name_prefix="inspect") as pool:
        found = list(pool.map(lambda pair: _sniff(files, catalog, *pair), chosen))
    seen = [sniffed for sniffed in found if sniffed is not None]
    notes = [
        f"{file.path} is not of a form that TiCDC writes: no row of {schema.name} was found in it"
        for (file, schema), sniffed in zip(chosen, found, strict=True)
        if sniffed is None
    ]
    if not seen:
        return detected.model_copy(update={"sampled": len(chosen)}), notes
    kinds = Counter(sniffed.marks for sniffed in seen).most_common()
    alike = [sniffed for sniffed in seen if sniffed.marks == kinds[0][0]]
    shown = protocol_of(alike[0].dialect).agreed(alike)
    if len(kinds) > 1 or not shown.consistent:
        notes.append("files differ in protocol or options: the changefeed was changed, or two of them write here")
    notes += _unproven(shown.unproven)
    known = {"dialect": shown.dialect, "with_commit_ts": shown.commit_ts, "sampled": len(chosen)}
    return detected.model_copy(update={**known, "unproven": (*detected.unproven, *shown.unproven)}), notes


def _unproven(keys: Sequence[str]) -> Iterator[str]:
    if keys:
        yield f"the files do not prove {', '.join(keys)}: set it in the TOML as in the changefeed"


def _sniff(files: Files, catalog: Catalog, file: DataFile, schema: SchemaFile) -> Sniffed | None:
    protocol = protocol_of_file(file.path)
    if protocol is None:
        return None
    for size in _HEADS:
        content = files.read(file, 0, min(size, file.size))
        whole = len(content) == file.size
        found = protocol.sniff(content, whole, schema, catalog.declared)
        if found is not None or whole:
            return found
    return None
