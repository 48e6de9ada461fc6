"""Backoff before a Job replaces a failed pod: 10 s, then twice as long each time, 10 minutes at most.

kube-controller-manager keeps the count in memory per Job; with a limit per index it is stored on the failed pod.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.workloads.jobs.pods import finished_at, index_failures, index_ignored

MAX_SECONDS = 600.0


class Failures(NamedTuple):
    """Failed pods since the last success, and the time at which the last of them finished (seconds since 1970)."""

    number: int = 0
    last: float = -math.inf

    def after(self, succeeded: Iterable[Json], failed: Iterable[Json]) -> Failures:
        """Return the record with these newly finished pods; failures before the last success are dropped."""
        successes, ends = [finished_at(pod) for pod in succeeded], [finished_at(pod) for pod in failed]
        if successes:
            ends = [at for at in ends if at > max(successes)]
            return Failures(len(ends), max(ends)) if ends else Failures()
        return Failures(self.number + len(ends), max(ends)) if ends else self

    def backoff_ends_at(self, base_seconds: float) -> float:
        """Return the time from which the next pod may be created."""
        if not self.number:
            return -math.inf
        doubled: float = base_seconds * 2 ** min(self.number - 1, 30)
        return self.last + min(doubled, MAX_SECONDS)


NO_FAILURES = Failures()


def index_backoff_ends_at(failed: Json | None, base_seconds: float) -> float:
    """Return the time from which the pod after `failed` may be created, with a backoff per index."""
    if failed is None:
        return -math.inf
    return Failures(index_failures(failed) + index_ignored(failed) + 1, finished_at(failed)).backoff_ends_at(
        base_seconds
    )
