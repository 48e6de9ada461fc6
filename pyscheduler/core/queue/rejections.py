"""Waiting pods counted by the plugin that rejected them, for `scheduler_unschedulable_pods`."""

from __future__ import annotations

from collections import Counter

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.rejectors import Waker, rejectors_of


class RejectionCounts:
    """Counts that follow the pods, since a scrape must not look at 100,000 of them."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        """Pods by (plugin, scheduler name)."""
        self._of_pod: dict[str, tuple[Waker, ...]] = {}

    def add(self, queued: QueuedPod) -> None:
        """Count a pod that has entered a tier, or entered another one; its rejectors do not change there."""
        if self._of_pod:
            self.remove(queued.pod.uid)
        if queued.unschedulable_plugins or queued.pending_plugins:
            counted = self._of_pod[queued.pod.uid] = rejectors_of(queued)
            for profile, plugin in counted:
                self.counts[plugin, profile] += 1

    def remove(self, uid: str) -> None:
        """The pod has left the queue; one that is not counted is ignored."""
        for profile, plugin in self._of_pod.pop(uid, ()):
            self.counts[plugin, profile] -= 1
            if not self.counts[plugin, profile]:
                del self.counts[plugin, profile]
