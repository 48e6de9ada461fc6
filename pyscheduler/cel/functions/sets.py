"""cel-go's extension for sets."""

from __future__ import annotations

from typing import Final

from pyscheduler.cel.equality import equals
from pyscheduler.cel.functions.costs import multiply_sizes
from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.types import BOOL, TypeParam, list_of
from pyscheduler.cel.values import Value

_LIST: Final = list_of(TypeParam("T"))


def includes(values: tuple[Value, ...], wanted: Value) -> bool:
    """Return True if the list has an equal element; values that cannot be compared are not equal."""
    return any(equals(wanted, value) is True for value in values)


def _contains(values: tuple[Value, ...], wanted: tuple[Value, ...]) -> bool:
    return all(includes(values, value) for value in wanted)


def _equivalent(a: tuple[Value, ...], b: tuple[Value, ...]) -> bool:
    return _contains(a, b) and _contains(b, a)


def _intersects(a: tuple[Value, ...], b: tuple[Value, ...]) -> bool:
    return any(includes(b, value) for value in a)


SETS_LIBRARY: Final = {
    "sets.contains": (Overload("list_sets_contains_list", (_LIST, _LIST), BOOL, _contains, cost=multiply_sizes(1)),),
    "sets.equivalent": (
        Overload("list_sets_equivalent_list", (_LIST, _LIST), BOOL, _equivalent, cost=multiply_sizes(2)),
    ),
    "sets.intersects": (
        Overload("list_sets_intersects_list", (_LIST, _LIST), BOOL, _intersects, cost=multiply_sizes(1)),
    ),
}
