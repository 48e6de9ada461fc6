"""Counts of pending pods by the plugin that rejected them, for `scheduler_unschedulable_pods`."""

from __future__ import annotations

from collections import Counter

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.rejectors import Waker, rejectors_of


class RejectionCounts:
    """Incremental counts: a scrape must not iterate over 100,000 pods."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        """Number of pods by (plugin, scheduler name)."""
        self._of_pod: dict[str, tuple[Waker, ...]] = {}

    def add(self, queued: QueuedPod) -> None:
        """Count a pod that enters a tier or moves to another one; its rejectors must not change there."""
        if self._of_pod:
            self.remove(queued.pod.uid)
        if queued.unschedulable_plugins or queued.pending_plugins:
            counted = self._of_pod[queued.pod.uid] = rejectors_of(queued)
            for profile, plugin in counted:
                self.counts[plugin, profile] += 1

    def remove(self, uid: str) -> None:
        """Stop counting a pod that leaves the queue; pods not counted are ignored."""
        for profile, plugin in self._of_pod.pop(uid, ()):
            self.counts[plugin, profile] -= 1
            if not self.counts[plugin, profile]:
                del self.counts[plugin, profile]
