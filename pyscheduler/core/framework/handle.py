"""The other side of the plugins' door: listers, label indexes and the waiting room of Permit, all in memory.

Plugins ask for things during their calls (`activate`, `allow`, `reject`); the machine collects what they asked for
once the call is over, so that a plugin never re-enters the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.pod import Pod

_NO_PODS: Mapping[str, Pod] = MappingProxyType({})
MAX_PERMIT_WAIT = 15 * 60.0
"""Seconds; kube-scheduler caps every Permit wait at 15 minutes."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A parked pod: which plugins hold it, and until when each does."""

    pod: Pod
    node_name: str
    since: float
    deadlines: dict[str, float]
    rejected_by: str = ""
    rejection: str = ""

    @property
    def pending_plugins(self) -> frozenset[str]:
        return frozenset(self.deadlines)

    @property
    def settled(self) -> bool:
        """Whether it has been decided on: nobody holds it any more, or somebody rejected it."""
        return bool(self.rejected_by) or not self.deadlines

    def allow(self, plugin: str) -> None:
        self.deadlines.pop(plugin, None)

    def reject(self, plugin: str, message: str) -> None:
        if not self.rejected_by:
            self.rejected_by, self.rejection = plugin, message

    def expire(self, now: float) -> None:
        """Reject it if a plugin's time is up; of several, the one whose time was up first is named."""
        plugin = min(self.deadlines, key=self.deadlines.__getitem__, default=None)
        if plugin is not None and now >= self.deadlines[plugin]:
            waited = _as_go_prints(self.deadlines[plugin] - self.since)
            self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")


@dataclass(slots=True, eq=False)
class CoreHandle:
    """What the machine shares with every plugin; the `Handle` protocol of the public interface."""

    waiting: dict[str, Waiting] = field(default_factory=dict)
    _activated: list[Pod] = field(default_factory=list)
    _objects: dict[ResourceKind, dict[tuple[str, str], dict[str, Any]]] = field(default_factory=dict)
    _labelled: dict[str, dict[tuple[str, str], dict[str, Pod]]] = field(default_factory=dict)

    # -- for plugins ---------------------------------------------------------------------------------------------

    def waiting_pods(self) -> Iterable[Waiting]:
        return tuple(self.waiting.values())

    def waiting_pod(self, uid: str) -> Waiting | None:
        return self.waiting.get(uid)

    def activate(self, pods: Iterable[Pod]) -> None:
        self._activated.extend(pods)

    def objects(self, kind: ResourceKind) -> Mapping[tuple[str, str], dict[str, Any]]:
        return self._objects.setdefault(kind, {})

    def pods_labelled(self, key: str, namespace: str, value: str) -> Mapping[str, Pod]:
        return self._labelled[key].get((namespace, value), _NO_PODS)

    # -- for the machine -----------------------------------------------------------------------------------------

    def index(self, keys: Iterable[str]) -> None:
        """Keep an index of pods by these label keys."""
        for key in keys:
            self._labelled.setdefault(key, {})

    def take_activated(self) -> list[Pod]:
        """The pods that plugins wanted activated since the last call."""
        pods, self._activated = self._activated, []
        return pods

    def take_settled(self) -> list[Waiting]:
        """The parked pods that have been decided on, removed from the waiting room."""
        settled = [w for w in self.waiting.values() if w.settled]
        for waiting in settled:
            del self.waiting[waiting.pod.uid]
        return settled

    def set_object(self, kind: ResourceKind, obj: dict[str, Any]) -> dict[str, Any] | None:
        """Store an object; returns the one it replaces."""
        store, key = self._objects.setdefault(kind, {}), _key(obj)
        before = store.get(key)
        store[key] = obj
        return before

    def remove_object(self, kind: ResourceKind, namespace: str, name: str) -> dict[str, Any] | None:
        """Forget an object; returns it, or None if it was not known."""
        return self._objects.setdefault(kind, {}).pop((namespace, name), None)

    def set_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Bring the label indexes up to date with a pod's new version."""
        for key, index in self._labelled.items():
            if old is not None and (value := old.labels.get(key)) is not None:
                _drop(index, (old.namespace, value), old.uid)
            if new is not None and (value := new.labels.get(key)) is not None:
                index.setdefault((new.namespace, value), {})[new.uid] = new


def _drop(index: dict[tuple[str, str], dict[str, Pod]], at: tuple[str, str], uid: str) -> None:
    pods = index.get(at)
    if pods is not None:
        pods.pop(uid, None)
        if not pods:
            del index[at]


def _as_go_prints(seconds: float) -> str:
    """A duration in kube-scheduler's messages: 500ms, 5s, 1m30s, 15m0s."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(round(seconds, 6), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"


def _key(obj: dict[str, Any]) -> tuple[str, str]:
    meta = obj.get("metadata") or {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))
