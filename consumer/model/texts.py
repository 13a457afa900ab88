"""Formats texts for people."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence


def one_line(text: str) -> str:
    """Returns `text` with its line breaks and runs of blanks as single blanks."""
    return " ".join(text.split())


def shortened(text: str, most: int = 1000) -> str:
    """Returns `text`, or its first `most` characters and `` ..``."""
    return text if len(text) <= most else text[:most] + " .."


def printable(line: str) -> str:
    """Returns `line` with each character that a terminal obeys, or that is invisible, as an escape: names and values in
    it come from others."""
    return line if line.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def duration_text(seconds: float) -> str:
    """Returns seconds below two minutes, otherwise hours, minutes and seconds."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size_text(size: float) -> str:
    """Returns bytes in the unit that fits."""
    amount, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.0f} {units[0]}" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def some_of(names: Sequence[object], most: int = 5) -> str:
    """Returns the first `most` of `names`, and `` ..`` if there are more."""
    return ", ".join(map(str, names[:most])) + (", .." if len(names) > most else "")


def nearest(word: str, candidates: Iterable[str], alike: float = 0.6) -> str:
    """Returns the one of `candidates` that `word` resembles most, "" for none."""
    matches = difflib.get_close_matches(word, list(candidates), n=1, cutoff=alike)
    return matches[0] if matches else ""


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Returns the end of a sentence that names the nearest of the `candidates`, "" if none is like `word`."""
    close = nearest(word, candidates)
    return f"; did you mean {close}?" if close else ""


def count_text(count: int, one: str, many: str = "") -> str:
    """Returns a number of things: `one` is the word for one of them, `many` that for more, if not with an `s`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def receiver_text(to: str) -> str:
    """Returns who is notified, without what may be a secret: of a webhook its host, because its path lets anybody post;
    of a command its first word, because the others can hold a password."""
    if match := re.match(r"(https?://)(?:[^/?#]*@)?([^/?#]*)", to):
        return f"{match[1]}{match[2]}/.."
    word = to.split()[0]
    return word if word == to else "a command" if "=" in word else f"{word} .."
