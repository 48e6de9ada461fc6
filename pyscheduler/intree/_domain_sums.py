"""Sums of pods by topology domain that a dry run has changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pyscheduler.api import Ints


class FixedSums(NamedTuple):
    """Sums by domain that follow no pods, a `DomainSums`."""

    numbers: Ints
    total: int

    def at(self, domain: int) -> int:
        """Return the sum of one domain id."""
        return self.numbers.item(domain)

    @property
    def nonzero_count(self) -> int:
        """Number of domains with a sum that is not 0."""
        return int(np.count_nonzero(self.numbers))
