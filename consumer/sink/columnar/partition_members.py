"""Which rows of a replica table are in some of upstream's partitions, as an SQL condition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from consumer.ddl.expressions import NotUnderstood, Null, parse_expression
from consumer.model.table_definition import Partition, Partitioning, PartitionKind
from consumer.sink.columnar.partition_columns import Comparand, comparands
from consumer.sink.columnar.partition_values import Translator
from consumer.sink.columnar.table import ReplicaTable

_INT64 = 1 << 63


def members(partitioning: Partitioning, chosen: Collection[int], table: ReplicaTable) -> str:
    """A condition that is true for the rows in the partitions at the positions `chosen`, false for rows of the others,
    and NULL where it cannot be told: the row is in no partition that is known. Raises NotUnderstood."""
    translator = Translator(table)
    match partitioning.kind:
        case PartitionKind.KEY:
            raise NotUnderstood("the hash of PARTITION BY KEY")
        case PartitionKind.HASH:
            branches = _hash(partitioning, chosen, translator)
        case PartitionKind.RANGE | PartitionKind.RANGE_COLUMNS:
            branches = " ".join(_range(partitioning, chosen, comparands(partitioning, translator)))
        case _:
            branches = _list(partitioning, chosen, comparands(partitioning, translator))
    unsure = "".join(f"WHEN {condition} THEN NULL " for condition in dict.fromkeys(translator.unsure))
    return f"CASE {unsure}{branches} END"


def _hash(partitioning: Partitioning, chosen: Collection[int], translator: Translator) -> str:
    """TiDB takes the value as a signed 64-bit number; NULL counts as 0."""
    value = translator.whole(parse_expression(partitioning.by[0]))
    signed = (
        f"({value.sql} - CASE WHEN {value.sql} >= {_INT64} THEN {_INT64 * 2} ELSE 0 END)"
        if value.unsigned
        else value.sql
    )
    places = ", ".join(map(str, sorted(chosen)))
    return f"WHEN coalesce(abs({signed} % {len(partitioning.partitions)}), 0) IN ({places}) THEN TRUE ELSE FALSE"


def _range(partitioning: Partitioning, chosen: Collection[int], compared: Sequence[Comparand]) -> Iterator[str]:
    """One branch for each run of partitions that are all chosen, or all not."""
    partitions = partitioning.partitions
    for at, partition in enumerate(partitions):
        is_last = at + 1 == len(partitions)
        if is_last or (at in chosen) != (at + 1 in chosen):
            (bounds,) = partition.values
            yield f"WHEN {_less(compared, bounds)} THEN {at in chosen}"


def _less(compared: Sequence[Comparand], bounds: Sequence[str]) -> str:
    """Column by column; NULL is less than all."""
    first, bound = compared[0], bounds[0]
    if bound.upper() == "MAXVALUE":
        return "TRUE"
    limit = first.bound(parse_expression(bound))
    less = f"{first.sql} IS NULL OR {first.sql} < {limit}"
    return f"({less} OR ({first.sql} = {limit} AND {_less(compared[1:], bounds[1:])}))" if compared[1:] else f"({less})"


def _list(partitioning: Partitioning, chosen: Collection[int], compared: Sequence[Comparand]) -> str:
    """Text that equals no member by its bytes can equal one by its collation: then DEFAULT is no answer."""
    taken = [part for at, part in enumerate(partitioning.partitions) if at in chosen]
    others = [part for at, part in enumerate(partitioning.partitions) if at not in chosen]
    branches = [
        f"WHEN {condition} THEN {answer}"
        for parts, answer in ((taken, True), (others, False))
        if (condition := _equal(compared, parts))
    ]
    default = next((at in chosen for at, part in enumerate(partitioning.partitions) if part.is_default), None)
    told = default is not None and all(each.exact for each in compared)
    return " ".join([*branches, f"ELSE {default}" if told else "ELSE NULL"])


def _equal(compared: Sequence[Comparand], partitions: Sequence[Partition]) -> str:
    """Whether the row is one of those that `partitions` list; "" where they list none."""
    rows = [row for partition in partitions for row in partition.values]
    if len(compared) > 1:
        return " OR ".join(f"({' AND '.join(map(_same, compared, row))})" for row in rows)
    (only,) = compared
    bounds = [parse_expression(text) for (text,) in rows]
    values = [only.bound(bound) for bound in bounds if not isinstance(bound, Null)]
    null = [f"{only.sql} IS NULL"] if len(values) < len(bounds) else []
    return " OR ".join([*([f"{only.sql} IN ({', '.join(values)})"] if values else []), *null])


def _same(compared: Comparand, text: str) -> str:
    bound = parse_expression(text)
    return f"{compared.sql} IS NULL" if isinstance(bound, Null) else f"{compared.sql} = {compared.bound(bound)}"
