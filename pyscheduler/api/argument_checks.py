"""Checks of the arguments with which plugins construct values: a wrong one raises TypeError in the plugin's line."""

from __future__ import annotations

from collections.abc import Mapping


def check_argument(owner: str, field: str, value: object, types: type | tuple[type, ...], expected: str) -> None:
    """Raise TypeError unless the value has one of the types: `Wait: reason must be a str, not int`."""
    if not isinstance(value, types):
        raise TypeError(f"{owner}: {field} must be {expected}, not {type(value).__name__}")


def check_items(owner: str, field: str, value: object, types: type | tuple[type, ...], expected: str) -> None:
    """Raise TypeError unless the value is a tuple or list of values of these types."""
    check_argument(owner, field, value, (tuple, list), expected)
    assert isinstance(value, tuple | list)
    for item in value:
        if not isinstance(item, types):
            raise TypeError(f"{owner}: {field} must be {expected}, not one with {type(item).__name__}")


def check_mapping(owner: str, field: str, value: object, types: type | tuple[type, ...], expected: str) -> None:
    """Raise TypeError unless the value is a mapping of strs to values of these types."""
    check_argument(owner, field, value, Mapping, expected)
    assert isinstance(value, Mapping)
    check_items(owner, field, [*value], str, expected)
    check_items(owner, field, [*value.values()], types, expected)
