"""Declarations of functions: what the checker resolves a call to, and what the evaluator calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from pyscheduler.cel.types import CelType
from pyscheduler.cel.values import Value

Cost: TypeAlias = Callable[[tuple[Value, ...], Value], int]
"""Run-time cost of a call, from its arguments and its result (which may be an error)."""


class Overload(msgspec.Struct, frozen=True):
    """One signature of a function.

    `arguments` include the target of a member function as the first. `call` takes as many values, none of which is an
    error, and returns a value or a CelError. It is called only if each argument has the declared type; of lists and maps,
    the first entry is checked, as in cel-go. The type `dyn` and type parameters accept anything.
    """

    id: str
    arguments: tuple[CelType, ...]
    result: CelType
    call: Callable[..., Value]
    is_member: bool = False
    cost: Cost | None = None
    """None is a cost of 1 per call, cel-go's default."""


Library: TypeAlias = Mapping[str, Sequence[Overload]]
"""Overloads by the name of the function."""
