"""Lookups of pods with an accepted binding that the watch has not confirmed.

A response is no proof of a binding: a proxy may send one for a request that never arrived. kube-scheduler trusts it
until it restarts (durationToExpireAssumedPod is 0), and the pod stays assumed on a node it will never run on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

LOOK_UP_AFTER: Final = 60.0
"""Seconds from the binding to the first lookup. A stalled watch is replaced earlier (`pyscheduler.kube.deadlines`)."""


class Unconfirmed:
    """UIDs of unconfirmed pods in the order in which their lookups are due."""

    def __init__(self) -> None:
        self.due: OrderedDict[str, float] = OrderedDict()
        """Times of the lookups, the next one first."""

    def add(self, uid: str, now: float) -> None:
        """Schedule the lookup of a pod with a binding that was accepted now."""
        self.due[uid] = now + LOOK_UP_AFTER
        self.due.move_to_end(uid)

    def discard(self, uid: str) -> None:
        """Cancel the lookup of a pod that was confirmed or forgotten."""
        self.due.pop(uid, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.due)

    def next_due(self) -> float:
        """Return the time of the next lookup, of which there must be one."""
        return next(iter(self.due.values()))

    def take_due(self, now: float) -> list[str]:
        """Return the UIDs of the pods to look up now, and schedule their next lookups in case there is no reply."""
        taken = []
        while self.due and self.next_due() <= now:
            uid, _ = self.due.popitem(last=False)
            taken.append(uid)
        for uid in taken:
            self.add(uid, now)
        return taken
