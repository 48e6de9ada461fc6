"""State of one evaluation, and the closures that a syntax tree becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyscheduler.cel.values import CelMap, Value


class Frame:
    """The device or a map of the variables, the variables of comprehensions by number, and the cost so far."""

    __slots__ = ("cost", "device", "limit", "variables")

    def __init__(self, device: CelMap, variables: int, limit: int) -> None:
        self.device = device
        self.variables: list[Value] = [None] * variables
        self.cost = 0
        self.limit = limit


Code: TypeAlias = Callable[[Frame], Value]
"""Evaluates a node: adds the cost to the frame, returns a value or a CelError."""
