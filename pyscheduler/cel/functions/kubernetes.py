"""All libraries that Kubernetes 1.37 adds to CEL's standard ones (apiserver, pkg/cel/environment/base.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyscheduler.cel.functions.authorization import AUTHORIZATION_LIBRARY
from pyscheduler.cel.functions.costs import (
    fixed,
    match_first,
    traverse_first,
    traverse_first_twice,
    traverse_result_twice,
    traverse_tree,
)
from pyscheduler.cel.functions.formats import FORMATS_LIBRARY, validate_cost
from pyscheduler.cel.functions.kubernetes_lists import KUBERNETES_LISTS_LIBRARY
from pyscheduler.cel.functions.lists import LISTS_LIBRARY
from pyscheduler.cel.functions.networks import CIDR_LIBRARY, IP_LIBRARY, contains_cidr_cost, contains_ip_cost
from pyscheduler.cel.functions.quantities import QUANTITY_LIBRARY
from pyscheduler.cel.functions.regexes import REGEX_LIBRARY
from pyscheduler.cel.functions.registry import Cost, Library, Overload
from pyscheduler.cel.functions.semver import SEMVER_LIBRARY
from pyscheduler.cel.functions.sets import SETS_LIBRARY
from pyscheduler.cel.functions.strings import STRINGS_LIBRARY
from pyscheduler.cel.functions.urls import URLS_LIBRARY

_LIBRARIES: Final[tuple[Library, ...]] = (
    URLS_LIBRARY,
    REGEX_LIBRARY,
    AUTHORIZATION_LIBRARY,
    QUANTITY_LIBRARY,
    STRINGS_LIBRARY,
    SETS_LIBRARY,
    IP_LIBRARY,
    CIDR_LIBRARY,
    FORMATS_LIBRARY,
    SEMVER_LIBRARY,
    LISTS_LIBRARY,
    KUBERNETES_LISTS_LIBRARY,
)
"""In upstream's order, which is the order of a function's overloads."""


def merge_libraries(*libraries: Library) -> dict[str, tuple[Overload, ...]]:
    """Return the functions of all libraries; overloads of the same name follow one another."""
    merged: dict[str, tuple[Overload, ...]] = {}
    for library in libraries:
        for name, overloads in library.items():
            merged[name] = (*merged.get(name, ()), *overloads)
    return merged


LIBRARY: Final = merge_libraries(*_LIBRARIES)

_TRAVERSE_TREE: Final = ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes")
_TRAVERSE: Final = (
    *("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR", "ip"),
    *("quantity", "isQuantity", "semver", "isSemver"),
)
FUNCTION_COSTS: Final[Mapping[str, Cost]] = {
    **dict.fromkeys(_TRAVERSE_TREE, traverse_tree),
    **dict.fromkeys(_TRAVERSE, traverse_first),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), traverse_first_twice),
    **dict.fromkeys(("find", "findAll"), match_first),
    "check": fixed(350_000),
    "join": traverse_result_twice,
    "containsIP": contains_ip_cost,
    "containsCIDR": contains_cidr_cost,
    "validate": validate_cost,
}
"""Costs by name of the function, for calls whose overload is chosen at run time; other functions cost 1."""
