"""Pods that wait for an event: rejected ones, and gated ones.

A busy cluster has many events while tens of thousands of pods wait. Therefore pods are indexed by the plugins that
rejected or gate them, and an event is evaluated only for the pods of the plugins that registered for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.entry import TierIndex
from pyscheduler.core.queue.rejections import ProfilePlugin, plugins_of_profile, rejectors_of


class UnschedulablePods:
    """kube-scheduler's unschedulablePods. Only events of the plugin that gates a pod can requeue a gated pod."""

    def __init__(self, index: TierIndex) -> None:
        self.rejected: dict[str, QueuedPod] = {}
        """Pods that are not gated, by UID."""
        self.gated: dict[str, QueuedPod] = {}
        """Gated pods by UID."""
        self._index = index
        self._by_plugin: dict[ProfilePlugin, dict[str, QueuedPod]] = {}
        self._plugins: dict[str, tuple[ProfilePlugin, ...]] = {}

    def __len__(self) -> int:
        return len(self._plugins)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self.rejected.values()
        yield from self.gated.values()

    def get(self, uid: str) -> QueuedPod | None:
        return self.rejected.get(uid) or self.gated.get(uid)

    def add(self, queued: QueuedPod) -> None:
        """Add a pod that is not in yet; its rejectors and its gate must not change while it is."""
        uid, gate = queued.pod.uid, queued.gating_plugin
        (self.gated if gate else self.rejected)[uid] = queued
        plugins = plugins_of_profile(queued.pod.scheduler_name, frozenset({gate})) if gate else rejectors_of(queued)
        self._index[uid] = self
        self._plugins[uid] = plugins
        for plugin in plugins:
            self._by_plugin.setdefault(plugin, {})[uid] = queued

    def replace(self, pod: Pod) -> None:
        """Replace a pod that is in by its new version."""
        (self.rejected.get(pod.uid) or self.gated[pod.uid]).pod = pod

    def remove(self, uid: str) -> QueuedPod:
        """Remove and return a pod that is in."""
        for plugin in self._plugins.pop(uid):
            pods = self._by_plugin[plugin]
            del pods[uid]
            if not pods:
                del self._by_plugin[plugin]
        del self._index[uid]
        return self.rejected.pop(uid, None) or self.gated.pop(uid)

    def has_any(self, plugins: Iterable[ProfilePlugin] | None) -> bool:
        """Return True if one of the plugins rejected or gates any pod; None: if any pod is not gated."""
        return bool(self.rejected) if plugins is None else any(plugin in self._by_plugin for plugin in plugins)

    def is_held_by(self, uid: str, plugins: Iterable[ProfilePlugin]) -> bool:
        """Return True if one of the plugins rejected or gates the pod."""
        return not set(plugins).isdisjoint(self._plugins.get(uid, ()))

    def held_by(self, plugin: ProfilePlugin) -> list[QueuedPod]:
        """Return the pods that the plugin rejected or gates, in order of insertion."""
        return list(self._by_plugin.get(plugin, {}).values())
