"""Selectors of devices in CEL, whose evaluator is imported with the first expression.

It takes a tenth of the time in which the scheduler starts, and most clusters have no devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.intree.devices.selectors import SelectedDevice

if TYPE_CHECKING:
    from pyscheduler.intree.devices.cel_programs import CelPrograms


class CelSelectors:
    """Evaluates expressions for devices."""

    def __init__(self) -> None:
        self._programs: CelPrograms | None = None

    def start(self) -> None:
        """Begin an attempt: the cost of its evaluations is limited."""
        if self._programs is not None:
            self._programs.start()

    def matches(self, expression: str, device: SelectedDevice) -> bool:
        """Return the value of the expression. ExpressionCompileError or ExpressionRuntimeError if it has none.

        AllocationTimeoutError if the attempt costs too much. Results are kept, so a later attempt gets further.
        """
        if self._programs is None:
            from pyscheduler.intree.devices.cel_programs import CelPrograms

            self._programs = CelPrograms()
        return self._programs.matches(expression, device)
