"""Time-decayed usage of a queue, so that a queue which was idle is served before one that has used much lately.

The average weighs usage by its age: what was allocated one half-life ago counts half. It is a fold over changes of the
allocated amounts. Between two changes they are constant, so the result does not depend on how often it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from pyscheduler.api.resources import Amounts


class DecayedUsage(Struct, frozen=True):
    """Decayed average of the amounts that a queue has allocated, as of a time."""

    at: float
    """Seconds since the epoch."""
    average: Mapping[str, float] = {}
    allocated: Amounts = {}
    """Amounts that are allocated since `at`."""

    def advance(self, now: float, half_life: float) -> DecayedUsage:
        """Return the usage as of `now`. A clock that was set back neither adds nor removes usage."""
        if not half_life > 0:
            raise ValueError(f"half-life: Invalid value: {half_life}: must be greater than 0")
        if now <= self.at:
            return DecayedUsage(now, self.average, self.allocated)
        old = math.exp2((self.at - now) / half_life)
        resources = {**self.average, **self.allocated}
        average = {
            resource: self.average.get(resource, 0.0) * old + self.allocated.get(resource, 0) * (1 - old)
            for resource in resources
        }
        return DecayedUsage(now, {resource: n for resource, n in average.items() if n > 0}, self.allocated)

    def record(self, now: float, allocated: Mapping[str, int], half_life: float) -> DecayedUsage:
        """Return the usage as of `now`, from when on other amounts are allocated."""
        advanced = self.advance(now, half_life)
        return DecayedUsage(advanced.at, advanced.average, {resource: n for resource, n in allocated.items() if n > 0})

    def dominant_share(self, capacity: Mapping[str, int]) -> float:
        """Return the largest ratio of the average to the capacity; 1 for a resource that the cluster does not have."""
        ratios = (n / capacity[r] if capacity.get(r, 0) > 0 else 1.0 for r, n in self.average.items())
        return max(ratios, default=0.0)
