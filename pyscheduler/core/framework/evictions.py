"""Evictions that have been asked for and are not yet seen to work: until then their preemptors are not tried again.

A pod that is tried while some of its victims still look alive would pick further victims. Kube-scheduler guards against
that by the PreEnqueue of DefaultPreemption, and so it is here.
"""

from __future__ import annotations

from collections import Counter


class Evictions:
    """Victims that are still to be deleted, and for whom; pods by UID."""

    def __init__(self) -> None:
        self._preemptors: dict[str, set[str]] = {}
        self._pending: Counter[str] = Counter()

    def begin(self, victim: str, preemptor: str) -> None:
        """The API server is going to be asked to delete the victim."""
        preemptors = self._preemptors.setdefault(victim, set())
        if preemptor not in preemptors:
            preemptors.add(preemptor)
            self._pending[preemptor] += 1

    def end(self, victim: str) -> list[str]:
        """The victim is on its way out or gone, or could not be evicted; unknown pods are ignored.

        Returns the preemptors that wait for no other victim, in an order that does not depend on hashing.
        """
        done = []
        for preemptor in sorted(self._preemptors.pop(victim, ())):
            self._pending[preemptor] -= 1
            if not self._pending[preemptor]:
                del self._pending[preemptor]
                done.append(preemptor)
        return done

    def is_pending_for(self, preemptor: str) -> bool:
        """Whether some victim of the pod is still to be deleted."""
        return preemptor in self._pending
