"""Size of the steps in which a group is placed."""

from __future__ import annotations

from typing import Final

MEMBERS_PER_STEP: Final = 16
"""Members that are placed in a step, at 40 µs to 1 ms each; counted, not timed, so that a replay has the same steps."""
