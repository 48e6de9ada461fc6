"""Requests that plugins make during a call.

The machine applies them after the call, so that a plugin never re-enters the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyscheduler.api.pod import Pod
from pyscheduler.core.queue.nominator import Nominator


class PluginRequests:
    """Pods for which plugins have made one kind of request."""

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        """Pods of the next `take`."""

    def add(self, pods: Iterable[Pod]) -> None:
        """Add pods to those of the next `take`."""
        self.pods.extend(pods)

    def take(self) -> list[Pod]:
        """Return the pods that were added since the last call."""
        pods, self.pods = self.pods, []
        return pods


class PluginNominator:
    """Nominations as plugins read them, and the requests of plugins to clear some."""

    def __init__(self, nominator: Nominator) -> None:
        self._nominator = nominator
        self.cleared = PluginRequests()

    def nominated_node(self, pod: Pod) -> str:
        return self._nominator.nominated_node(pod)

    def clear(self, pods: Iterable[Pod]) -> None:
        self.cleared.add(pods)
