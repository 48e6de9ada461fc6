"""Protection of PodGroups with active pods, as in kube-controller-manager, but synchronous.

A deleted PodGroup keeps its finalizer, and so stays visible to the scheduler, until its last active pod has ended or is
deleted.
"""

from __future__ import annotations

from collections.abc import Callable

from pyscheduler.embedded.admission.pod_groups import PROTECTION_FINALIZER
from pyscheduler.embedded.history import DELETED, Event
from pyscheduler.embedded.objects import Json, Key, dig
from pyscheduler.embedded.store import Store

POD_GROUPS = "podgroups.scheduling.k8s.io"
_PODS = "pods"
_ENDED = ("Succeeded", "Failed")

RemoveFinalizer = Callable[[tuple[str, Key], str], None]


class PodGroupProtection:
    """Active pods by PodGroup, and the PodGroups that may lose their finalizer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._active: dict[Key, set[str]] = {}
        """Names of the pods by namespace and name of their PodGroup."""
        self._pending: dict[Key, None] = {}
        store.reactors.append(self._react)

    def sync(self, remove_finalizer: RemoveFinalizer) -> bool:
        """Remove the finalizers of deleted PodGroups without active pods; return True if there were any."""
        pending, self._pending = self._pending, {}
        unused = [key for key in pending if key not in self._active and self._is_deleting(key)]
        for key in unused:
            remove_finalizer((POD_GROUPS, key), PROTECTION_FINALIZER)
        return bool(unused)

    def _is_deleting(self, key: Key) -> bool:
        version = self._store.get(POD_GROUPS, key)
        meta = version.object["metadata"] if version is not None else {}
        return "deletionTimestamp" in meta and PROTECTION_FINALIZER in (meta.get("finalizers") or ())

    def _react(self, bucket: str, event: Event) -> None:
        if bucket == POD_GROUPS:
            if event.kind != DELETED and "deletionTimestamp" in event.version.object["metadata"]:
                self._pending[event.version.key] = None
        elif bucket == _PODS:
            self._count_pod(event)

    def _count_pod(self, event: Event) -> None:
        namespace, name = event.version.key
        group = _group_name(event.version.object)
        if not group:
            return
        key = (namespace, group)
        if event.kind != DELETED and dig(event.version.object, "status", "phase") not in _ENDED:
            self._active.setdefault(key, set()).add(name)
        elif active := self._active.get(key):
            active.discard(name)
            if not active:
                del self._active[key]
                self._pending[key] = None


def _group_name(pod: Json) -> str:
    return dig(pod, "spec", "schedulingGroup", "podGroupName") or ""
