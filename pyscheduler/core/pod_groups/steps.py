"""Size of the steps in which a group is placed, or its victims are searched.

Work is counted, not timed, so that a replay has the same steps.
"""

from __future__ import annotations

from typing import Final

from pyscheduler.api.steps import Steps

MEMBERS_PER_STEP: Final = 16
"""Members that are placed or forgotten in a step, at 20 µs to 1 ms each."""
RECORDS_PER_STEP: Final = 256
"""Pods that a dry run removes or puts back in a step, or groups reported to the Quota plugin, at 20 µs each."""


class StepCounter:
    """Counter of the work since the last pause."""

    def __init__(self) -> None:
        self.work = 0

    def pause(self) -> Steps[None]:
        """Yield if a step's number of members has been placed or forgotten since the last pause."""
        if self.work >= MEMBERS_PER_STEP:
            self.work = 0
            yield
