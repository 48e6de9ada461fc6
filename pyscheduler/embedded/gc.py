"""Garbage collection by ownerReferences, as in Kubernetes' garbage collector, but synchronous.

The collector subscribes to the store and queues objects; `collect` processes the queue after the verb that changed
them. So dependents are deleted before the request returns, and tests need not wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pyscheduler.embedded.history import DELETED, Event
from pyscheduler.embedded.objects import Json, Key, owners_of
from pyscheduler.embedded.store import Store

FOREGROUND = "foregroundDeletion"

ObjectRef = tuple[str, Key]
"""Bucket and key of an object."""
DeleteObject = Callable[[ObjectRef, bool], None]
"""Delete an object; the flag selects foreground deletion."""
RemoveFinalizer = Callable[[ObjectRef, str], None]


def waits_for_dependents(obj: Json) -> bool:
    """Return True if `obj` is in foreground deletion."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and FOREGROUND in (meta.get("finalizers") or ())


class GarbageCollector:
    """Graph of owners and dependents, and the queue of objects to process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._alive: dict[str, ObjectRef] = {}
        self._dependents: dict[str, dict[ObjectRef, None]] = {}
        self._pending: deque[ObjectRef] = deque()
        store.reactors.append(self._react)

    def dependents(self, uid: str) -> list[ObjectRef]:
        """Return the objects with `uid` in their ownerReferences."""
        return list(self._dependents.get(uid, ()))

    def living(self, uid: str) -> Json | None:
        """Return the object with a uid, None if it does not exist."""
        place = self._alive.get(uid)
        version = self._store.get(*place) if place else None
        return version.object if version else None

    def _react(self, bucket: str, event: Event) -> None:
        obj, place = event.version.object, (bucket, event.version.key)
        uid = obj["metadata"]["uid"]
        if event.kind == DELETED:
            self._alive.pop(uid, None)
            self._pending.extend(self._dependents.get(uid, ()))
            self._forget(obj, place)
            return
        self._alive[uid] = place
        if event.previous is not None and owners_of(event.previous.object) != owners_of(obj):
            self._forget(event.previous.object, place)
        for owner in owners_of(obj):
            self._dependents.setdefault(owner.get("uid", ""), {})[place] = None
            if owner.get("uid") not in self._alive:
                self._pending.append(place)
        if waits_for_dependents(obj):
            self._pending.append(place)

    def _forget(self, obj: Json, place: ObjectRef) -> None:
        for owner in owners_of(obj):
            uid = owner.get("uid", "")
            siblings = self._dependents.get(uid, {})
            siblings.pop(place, None)
            if not siblings:
                self._dependents.pop(uid, None)
            if uid in self._alive:
                self._pending.append(self._alive[uid])

    def collect(self, delete: DeleteObject, remove_finalizer: RemoveFinalizer) -> None:
        """Delete objects without remaining owners and finish foreground deletions until the queue is empty."""
        while self._pending:
            place = self._pending.popleft()
            version = self._store.get(*place)
            if version is None:
                continue
            if waits_for_dependents(version.object):
                self._delete_dependents(version.object, place, delete, remove_finalizer)
            elif owners_of(version.object):
                self._attempt_to_delete(version.object, place, delete)

    def _attempt_to_delete(self, obj: Json, place: ObjectRef, delete: DeleteObject) -> None:
        owners = owners_of(obj)
        living = [owner for owner in owners if owner.get("uid") in self._alive]
        if not living:
            if "deletionTimestamp" not in obj["metadata"]:
                delete(place, False)
        elif len(living) < len(owners):
            self._store.put(*place, {**obj, "metadata": {**obj["metadata"], "ownerReferences": living}})

    def _delete_dependents(
        self, obj: Json, place: ObjectRef, delete: DeleteObject, remove_finalizer: RemoveFinalizer
    ) -> None:
        uid = obj["metadata"]["uid"]
        blocking = 0
        for dependent in self.dependents(uid):
            version = self._store.get(*dependent)
            if version is None:
                continue
            others = [o for o in owners_of(version.object) if o.get("uid") != uid and o.get("uid") in self._alive]
            if others:
                continue
            mine = next(o for o in owners_of(version.object) if o.get("uid") == uid)
            if "deletionTimestamp" not in version.object["metadata"]:
                delete(dependent, bool(self._dependents.get(version.object["metadata"]["uid"])))
            blocking += bool(mine.get("blockOwnerDeletion")) and self._store.get(*dependent) is not None
        if not blocking:
            remove_finalizer(place, FOREGROUND)
