"""Pods by name, by label and by PodGroup (client-go's Indexer); plugins look them up by the latter two."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from types import MappingProxyType

from pyscheduler.api.pod import Pod
from pyscheduler.core.state.cluster import ClusterState

_NO_PODS: Mapping[str, Pod] = MappingProxyType({})


class PodIndexer:
    """Cached pods, with those succeeded ones that plugins count."""

    def __init__(self, state: ClusterState, scheduler_names: Container[str]) -> None:
        """`scheduler_names` are those of the profiles in use; a pending pod with another name is in no PodGroup."""
        self._state = state
        self._scheduler_names = scheduler_names
        self._named: dict[str, dict[str, str]] = {}
        """UIDs by namespace and name; no string is stored in addition to those of the pods."""
        self._labelled: dict[str, dict[tuple[str, str], dict[str, Pod]]] = {}
        self._grouped: dict[tuple[str, str], dict[str, Pod]] = {}
        self._counted: frozenset[str] = frozenset()
        self.succeeded: dict[str, Pod] = {}
        """Succeeded pods that plugins count, by UID."""

    # -- for plugins ---------------------------------------------------------------------------------------------

    def by_label(self, key: str, namespace: str, value: str) -> Mapping[str, Pod]:
        index = self._labelled.get(key)
        if index is None:
            raise LookupError(f'pods are not indexed by the label "{key}": add it to the `indexes` of the plugin')
        return index.get((namespace, value), _NO_PODS)

    def by_pod_group(self, namespace: str, name: str) -> Mapping[str, Pod]:
        return self._grouped.get((namespace, name), _NO_PODS)

    def is_assigned_or_assumed(self, uid: str) -> bool:
        return self._state.node_of(uid) is not None

    # -- for the machine -----------------------------------------------------------------------------------------

    def index(self, keys: Iterable[str], pods: Collection[Pod] = ()) -> None:
        """Index pods by these label keys; `pods` are those known already."""
        for key in keys:
            if key not in self._labelled:
                index = self._labelled[key] = {}
                for pod in (*pods, *self.succeeded.values()):
                    if (value := pod.labels.get(key)) is not None:
                        index.setdefault((pod.namespace, value), {})[pod.uid] = pod

    def uid_of(self, namespace: str, name: str) -> str | None:
        """Return the UID of the cached pod of that name, or None."""
        uids = self._named.get(namespace)
        return None if uids is None else uids.get(name)

    def uid_of_key(self, key: str) -> str | None:
        """Return the UID of a cached pod given as `namespace/name`, or None."""
        namespace, _, name = key.partition("/")
        return self.uid_of(namespace, name)

    def named_uids(self) -> Iterator[str]:
        """Return the UIDs of all pods that are known by name."""
        return (uid for uids in self._named.values() for uid in uids.values())

    def set_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Update all indexes with the new version of a pod; None if it was deleted."""
        if old is None and new is not None:
            uids = self._named.get(new.namespace)
            if uids is None:
                uids = self._named[new.namespace] = {}
            uids[new.name] = new.uid
        elif old is not None and new is None:
            self._remove_name(old)
        self._update_indexes(old, new)

    def _remove_name(self, pod: Pod) -> None:
        """Remove the pod's name, unless it stands for another pod by now."""
        uids = self._named.get(pod.namespace, {})
        if uids.get(pod.name) == pod.uid:
            del uids[pod.name]
            if not uids:
                del self._named[pod.namespace]

    def _update_indexes(self, old: Pod | None, new: Pod | None) -> None:
        """Update the indexes by label and by PodGroup."""
        if old is not None and (group := self._group_of(old)) is not None:
            _drop(self._grouped, group, old.uid)
        if new is not None and (group := self._group_of(new)) is not None:
            self._grouped.setdefault(group, {})[new.uid] = new
        for key, index in self._labelled.items():
            if old is not None and (value := old.labels.get(key)) is not None:
                _drop(index, (old.namespace, value), old.uid)
            if new is not None and (value := new.labels.get(key)) is not None:
                index.setdefault((new.namespace, value), {})[new.uid] = new

    def is_indexed(self, pod: Pod) -> bool:
        """Return True if plugins look the pod up by one of its labels."""
        return any(key in pod.labels for key in self._labelled)

    def count_succeeded(self, keys: Iterable[str]) -> None:
        """Keep succeeded pods with these label keys from now on; "" stands for those of all pod groups."""
        self._counted = self._counted.union(keys)

    def keep_succeeded(self, pod: Pod) -> bool:
        """Keep a terminated pod in the indexes if plugins count it. Return True if it is new there."""
        counted = any(key in pod.labels for key in self._counted)
        if not counted and ("" not in self._counted or self._group_of(pod) is None):
            return False
        old = self.succeeded.get(pod.uid)
        self.succeeded[pod.uid] = pod
        self._update_indexes(old, pod)
        return old is None

    def drop_succeeded(self, uid: str) -> None:
        """Remove a terminated pod from the indexes; unknown ones are ignored."""
        self._update_indexes(self.succeeded.pop(uid, None), None)

    def _group_of(self, pod: Pod) -> tuple[str, str] | None:
        """Return namespace and name of the PodGroup that the pod counts for; None if there is none."""
        group = pod.signature.spec.scheduling_group
        if group is None or not group.pod_group_name:
            return None
        is_ours = pod.node_name or pod.scheduler_name in self._scheduler_names
        return (pod.namespace, group.pod_group_name) if is_ours else None


def _drop(index: dict[tuple[str, str], dict[str, Pod]], at: tuple[str, str], uid: str) -> None:
    pods = index.get(at)
    if pods is not None:
        pods.pop(uid, None)
        if not pods:
            del index[at]
