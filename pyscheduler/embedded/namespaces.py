"""Namespace controller: deletes the contents of terminating namespaces, and fills new ones.

It acts as the namespace, service-account and root-CA publishers of a real cluster, right after the verb that triggered
it.
"""

from __future__ import annotations

from typing import Protocol

from pyscheduler.embedded.history import ADDED, DELETED, Event
from pyscheduler.embedded.objects import Key
from pyscheduler.embedded.store import Store

BUCKET = "namespaces"


class NamespaceDeleter(Protocol):
    """Operations that the namespace controller needs."""

    def delete(self, bucket: str, key: Key) -> None:
        """Delete an object of a terminating namespace."""

    def remove_namespace(self, name: str) -> None:
        """Remove a namespace that is empty, if its finalizers allow."""

    def fill_namespace(self, namespace: str) -> None:
        """Create the objects that every namespace has."""


class NamespaceController:
    """Tracks namespaces that are new or terminating."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._new: list[str] = []
        self._terminating: dict[str, bool] = {}
        store.reactors.append(self._react)

    def _react(self, bucket: str, event: Event) -> None:
        if bucket != BUCKET:
            if event.kind == DELETED and event.version.key[0] in self._terminating:
                self._terminating[event.version.key[0]] = True
            return
        name = event.version.key[1]
        if event.kind == ADDED:
            self._new.append(name)
        if event.kind == DELETED:
            self._terminating.pop(name, None)
        elif "deletionTimestamp" in event.version.object["metadata"]:
            self._terminating[name] = True

    def sync(self, deleter: NamespaceDeleter) -> bool:
        """Process new and terminating namespaces; return True if there were any."""
        new, self._new = self._new, []
        for name in new:
            deleter.fill_namespace(name)
        due = [name for name, changed in self._terminating.items() if changed]
        for name in due:
            self._terminating[name] = False
            self._empty(name, deleter)
        return bool(new or due)

    def _empty(self, name: str, deleter: NamespaceDeleter) -> None:
        left = False
        for bucket in self._store.buckets():
            for version in list(self._store.scan(bucket, name)):
                if "deletionTimestamp" not in version.object["metadata"]:
                    deleter.delete(bucket, version.key)
                left = left or self._store.get(bucket, version.key) is not None
        if not left:
            deleter.remove_namespace(name)
