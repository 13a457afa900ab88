"""Says what is wrong with a setting, in one sentence. Nothing else reads pydantic's errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError, WrapValidator
from pydantic_core import ErrorDetails

from consumer.model.texts import did_you_mean


class OfKey(ValueError):
    """A predicate about a key: "must be ..", "has ..". Other errors are sentences with a subject."""


def wanted(text: str) -> WrapValidator:
    """Returns a validator that says what the value of a key must be, in place of pydantic's own words."""

    def check(value: object, handler: Any) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise OfKey(f"must be {text}") from None

    return WrapValidator(check)


def check_keys(given: Iterable[object], known: Sequence[str]) -> None:
    """Raises ValueError for a key that is none of `known`."""
    for key in given:
        if key not in known:
            raise ValueError(f"{key} is not a key; known are {', '.join(known)}{did_you_mean(str(key), known)}")


def one_of(text: str, allowed: Iterable[str]) -> str:
    """Returns `text`, which must be one of `allowed`. Raises ValueError."""
    known = tuple(allowed)
    if text not in known:
        raise ValueError(f"'{text}' is not allowed; give {' or '.join(known)}")
    return text


def first_error(problem: ValidationError) -> tuple[str, str]:
    """Returns the setting of the first error, and what is wrong with it, as it follows the setting's name."""
    error = problem.errors(include_url=False)[0]
    setting, *place = error["loc"]
    if error["type"] == "missing" and not place:
        return str(setting), "is not set"
    return str(setting), f"is refused: {_where(place)}{_reason(error, place)}"


def _where(place: Sequence[int | str]) -> str:
    """Names one rule of a list in an error, by its number; "" for a setting that is no list of rules."""
    number = next((part for part in place if isinstance(part, int)), None)
    return "" if number is None else f"rule {number + 1}: "


def _reason(error: ErrorDetails, place: Sequence[int | str]) -> str:
    key = next((str(part) for part in reversed(place) if isinstance(part, str)), "")
    context: Mapping[str, Any] = error.get("ctx", {})
    if error["type"] in ("enum", "literal_error"):
        allowed = str(context["expected"]).replace(" or ", ", ").replace("'", "")
        return f"{key} {error['input']!r} is not allowed; give {allowed}".lstrip()
    words = error["msg"]
    problem = context["error"] if error["type"] == "value_error" else f"{words[:1].lower()}{words[1:]}"
    if not key or not isinstance(place[-1], str):
        return str(problem)
    return f"{key} {problem}" if isinstance(problem, OfKey) else f"{key}: {problem}"
