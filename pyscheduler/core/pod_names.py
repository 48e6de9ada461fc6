"""UIDs of pods by namespace and name."""

from __future__ import annotations

from collections.abc import Iterator

from pyscheduler.api.pod import Pod


class PodNames:
    """UIDs of the cached pods by namespace and name; no string is stored in addition to those of the pods."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, str]] = {}

    def uid(self, namespace: str, name: str) -> str | None:
        """Return the UID of the pod of that name, or None."""
        uids = self._by_namespace.get(namespace)
        return None if uids is None else uids.get(name)

    def uid_by_key(self, key: str) -> str | None:
        """Return the UID of a pod given as `namespace/name`, or None."""
        namespace, _, name = key.partition("/")
        return self.uid(namespace, name)

    def uids(self) -> Iterator[str]:
        """Return the UIDs of all named pods."""
        return (uid for uids in self._by_namespace.values() for uid in uids.values())

    def put(self, pod: Pod) -> None:
        """Let the pod's name stand for this pod."""
        namespace = pod.namespace
        uids = self._by_namespace.get(namespace)
        if uids is None:
            uids = self._by_namespace[namespace] = {}
        uids[pod.name] = pod.uid

    def remove(self, pod: Pod) -> None:
        """Remove the pod, unless its name stands for another one."""
        uids = self._by_namespace.get(pod.namespace, {})
        if uids.get(pod.name) == pod.uid:
            del uids[pod.name]
            if not uids:
                del self._by_namespace[pod.namespace]
