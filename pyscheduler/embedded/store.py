"""The objects of the cluster and one global resourceVersion: etcd's part in the embedded server, without I/O.

The store knows nothing of kinds. It keeps versions in buckets (one a resource, sorted by namespace and name, as etcd
lists them), counts revisions, remembers changes and tells subscribers. Rules about objects live above it.

It takes ownership of every dict it is given: the caller hands over a fresh object with fresh metadata (the store
writes the resourceVersion into it) and never changes it afterwards; parts may be shared with older versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sortedcontainers import SortedDict

from pyscheduler.embedded.history import ADDED, DELETED, MODIFIED, Event, History, Version
from pyscheduler.embedded.objects import Json, Key
from pyscheduler.embedded.status import too_large_revision

Subscriber = Callable[[Event], None]
Reactor = Callable[[str, Event], None]

DEFAULT_HISTORY = 50_000
"""Events remembered per resource (up to twice as many for a while)."""


class Bucket:
    """All objects of one resource, their history and who watches them."""

    def __init__(self, history: int) -> None:
        self.objects: SortedDict[Key, Version] = SortedDict()
        self.history = History(history)
        self.subscribers: dict[Subscriber, None] = {}


class Store:
    """Buckets of object versions under one revision counter."""

    def __init__(self, history: int = DEFAULT_HISTORY) -> None:
        self.revision = 1
        self.reactors: list[Reactor] = []
        self._history = history
        self._buckets: dict[str, Bucket] = {}

    def bucket(self, name: str) -> Bucket:
        """The bucket called `name`, made on first use."""
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = Bucket(self._history)
        return found

    def buckets(self) -> list[str]:
        """The names of all buckets in use."""
        return list(self._buckets)

    def get(self, bucket: str, key: Key) -> Version | None:
        """The present version of an object, None where there is none."""
        found: Version | None = self.bucket(bucket).objects.get(key)
        return found

    def put(self, bucket: str, key: Key, obj: Json) -> Version:
        """Create or replace. A replacement equal to what is stored is no change and makes no event."""
        target = self.bucket(bucket)
        previous: Version | None = target.objects.get(key)
        if previous is not None:
            obj["metadata"]["resourceVersion"] = previous.object["metadata"]["resourceVersion"]
            if obj == previous.object:
                return previous
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        version = Version(key, obj, self.revision)
        target.objects[key] = version
        self._notify_subscribers(bucket, target, Event(MODIFIED if previous else ADDED, version, previous))
        return version

    def remove(self, bucket: str, key: Key) -> Version:
        """Delete; the returned last version carries the revision of the deletion. KeyError if it is not there."""
        target = self.bucket(bucket)
        previous: Version = target.objects.pop(key)
        self.revision += 1
        meta = {**previous.object["metadata"], "resourceVersion": str(self.revision)}
        last = Version(key, {**previous.object, "metadata": meta}, self.revision)
        self._notify_subscribers(bucket, target, Event(DELETED, last, previous))
        return last

    def _notify_subscribers(self, name: str, bucket: Bucket, event: Event) -> None:
        bucket.history.append(event)
        for subscriber in bucket.subscribers:
            subscriber(event)
        for reactor in self.reactors:
            reactor(name, event)

    def scan(self, bucket: str, namespace: str = "", after: Key | None = None) -> Iterator[Version]:
        """Present versions in order, of one namespace or ("") of all, from behind the key `after`."""
        objects = self.bucket(bucket).objects
        if not namespace and after is None:
            return iter(objects.values())
        low = after if after is not None else (namespace, "")
        high = (namespace, "\U0010ffff") if namespace else None
        return (objects[key] for key in objects.irange(low, high, inclusive=(after is None, True)))

    def scan_at(self, bucket: str, revision: int, namespace: str = "", after: Key | None = None) -> Iterator[Version]:
        """As `scan`, but as it was at `revision`. ApiError: 410 if that is forgotten, 504 if it is yet to come."""
        if revision > self.revision:
            raise too_large_revision(revision, self.revision)
        before = self.bucket(bucket).history.undo(revision)
        if not before:
            return self.scan(bucket, namespace, after)
        then: dict[Key, Version | None] = {v.key: v for v in self.scan(bucket, namespace, after)}
        for key, version in before.items():
            if (not namespace or key[0] == namespace) and (after is None or key > after):
                then[key] = version
        return (version for _, version in sorted(then.items()) if version is not None)

    def subscribe(self, bucket: str, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each event of `bucket` from now on; the returned function ends that."""
        subscribers = self.bucket(bucket).subscribers
        subscribers[subscriber] = None
        return lambda: subscribers.pop(subscriber, None)

    def compact(self, revision: int | None = None) -> None:
        """Forget history up to `revision` (all of it by default), as etcd's compaction does."""
        for bucket in self._buckets.values():
            bucket.history.compact(self.revision if revision is None else revision)
