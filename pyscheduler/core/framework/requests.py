"""Requests that plugins make during a call.

The machine applies them after the call, so that a plugin never re-enters the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyscheduler.api.handle import ApiCall
from pyscheduler.api.pod import Pod
from pyscheduler.core.commands import CallApi
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


class PluginApiCalls:
    """API calls that plugins have added."""

    def __init__(self) -> None:
        self.added: list[CallApi] = []
        """Calls of the next `take`."""

    def add(self, plugin: str, call: ApiCall) -> None:
        self.added.append(CallApi(plugin, call))

    def take(self) -> list[CallApi]:
        """Return the calls that were added since the last call."""
        added, self.added = self.added, []
        return added


class PluginNominator:
    """Nominations as plugins read them, and the requests of plugins to clear some."""

    def __init__(self, nominator: Nominator) -> None:
        self._nominator = nominator
        self.cleared = PluginRequests()

    def nominated_node(self, pod: Pod) -> str:
        return self._nominator.nominated_node(pod)

    def clear(self, pods: Iterable[Pod]) -> None:
        self.cleared.add(pods)
