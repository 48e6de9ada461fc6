"""Evictions in flight: until they take effect, their preemptors stay out of the active queue.

A preemptor that is retried while its victims still look alive would select further victims. Kube-scheduler prevents
that in the PreEnqueue of DefaultPreemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class Evictions:
    """Victims still to be deleted, with their preemptors; pods by UID."""

    def __init__(self) -> None:
        self._preemptors: dict[str, set[str]] = {}
        self._pending: Counter[str] = Counter()
        self.is_preempting: Callable[[str], bool] = self._pending.__contains__
        """Returns True if a victim of the preemptor with this UID is still to be deleted; called for every new pod."""

    def begin(self, victim: str, preemptor: str) -> None:
        """Add a victim before the API server is called to delete it."""
        preemptors = self._preemptors.setdefault(victim, set())
        if preemptor not in preemptors:
            preemptors.add(preemptor)
            self._pending[preemptor] += 1

    def end(self, victim: str) -> list[str]:
        """Remove a victim that is terminating, deleted or could not be evicted; unknown pods are ignored.

        Return the preemptors that wait for no other victim, sorted so that the order does not depend on hashing.
        """
        unblocked = []
        for preemptor in sorted(self._preemptors.pop(victim, ())):
            self._pending[preemptor] -= 1
            if not self._pending[preemptor]:
                del self._pending[preemptor]
                unblocked.append(preemptor)
        return unblocked
