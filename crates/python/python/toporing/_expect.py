"""Refusals of arguments of a wrong kind."""

from __future__ import annotations

from typing import Any, Iterable, Mapping


def expect(name: str, value: Any, *kinds: type) -> None:
    """Raises `TypeError` unless an argument is of one of the kinds; a truth value is no number."""
    is_number = not isinstance(value, bool) or bool in kinds
    if not (isinstance(value, kinds) and is_number):
        wanted = " or ".join("None" if it is type(None) else it.__name__ for it in kinds)
        raise TypeError(f"{name}: expected {wanted}, not {type(value).__name__}")


def expect_all(name: str, values: Any, *kinds: type) -> None:
    """Raises `TypeError` unless an argument is a list or the like of such values."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: expected a list, not {type(values).__name__}")
    for place, value in enumerate(values):
        expect(f"{name}[{place}]", value, *kinds)
