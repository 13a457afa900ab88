"""How texts are compared: by collations that can be followed exactly."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from consumer.errors import CannotBeExact
from consumer.model.names import same_name
from consumer.shaping.operands import TEXT_TYPE, Values

_PADDED = ("utf8mb4_bin", "utf8mb3_bin", "utf8_bin", "ascii_bin")
_BYTES = ("binary", "utf8mb4_0900_bin")
_GENERAL = ("utf8mb4_general_ci", "utf8mb3_general_ci", "utf8_general_ci")
COLLATIONS = (*_PADDED, *_BYTES, *_GENERAL)
"""Those of which each comparison is exact; of general_ci for texts of ASCII."""


@dataclass(frozen=True, slots=True)
class Collation:
    """`padded`: blanks at the end do not count; `folded`: nor does case."""

    name: str
    padded: bool
    folded: bool

    @staticmethod
    def of(name: str) -> Collation:
        """Raises ValueError."""
        lowered = same_name(name)
        if lowered not in COLLATIONS:
            raise ValueError(f"the collation {name} cannot be followed exactly; known are {', '.join(COLLATIONS)}")
        return Collation(lowered, lowered not in _BYTES, lowered in _GENERAL)

    def key(self, values: Values, what: str) -> Values:
        """What compares by bytes as the texts compare by this collation. Raises CannotBeExact, without a value."""
        found = pc.utf8_rtrim(values, " ") if self.padded else values
        return pc.ascii_upper(self.checked(found, what)) if self.folded else found

    def checked(self, values: Values, what: str) -> Values:
        """`values`, of ASCII where case does not count."""
        if (
            self.folded and pc.any(pc.invert(pc.string_is_ascii(values))).as_py()
            if _many(values)
            else (self.folded and values.is_valid and not str(values).isascii())
        ):
            raise CannotBeExact(
                f"{what} has a text with other characters than ASCII's, whose case the collation {self.name} ignores"
                " in ways that are not followed here",
                hint="compare by a collation that ends in _bin: say it in the rule, or behind the text with COLLATE; if"
                " the table has rows already, fill it anew under another --name",
            )
        return values


def _many(values: Values) -> bool:
    return isinstance(values, pa.Array | pa.ChunkedArray)


def like(values: Values, pattern: str, escape: str, collation: Collation, what: str) -> Values:
    """LIKE, in which blanks at the end count. Raises ValueError for a pattern that ends in its escape character."""
    rest, written = iter(pattern), ""
    for character in rest:
        if escape and character == escape:
            following = next(rest, None)
            if following is None:
                raise ValueError(f"the pattern '{pattern}' ends with its escape character")
            written += f"\\{following}" if following in "%_\\" else following
        else:
            written += "\\\\" if character == "\\" else character
    if collation.folded and not pattern.isascii():
        raise ValueError(f"the pattern '{pattern}' needs a collation that ends in _bin")
    checked = collation.checked(values, what)
    return pc.match_like(checked.cast(TEXT_TYPE), written, ignore_case=collation.folded)
