"""Store of the cluster's objects with one global resourceVersion: the role of etcd, without I/O.

The store is independent of kinds. It has versions in buckets (one per resource, sorted by namespace and name, as etcd
lists them), counts revisions, records changes and notifies subscribers. Rules about objects are in other modules.

It takes ownership of every dict passed to it: the caller passes a new object with new metadata (the store writes the
resourceVersion into it) and does not change it afterwards; parts may be shared with older versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from sortedcontainers import SortedDict

from pyscheduler.embedded.history import ADDED, DELETED, MODIFIED, Event, History, Version
from pyscheduler.embedded.objects import Json, Key
from pyscheduler.embedded.status import too_large_revision
from pyscheduler.embedded.store_index import Index

IndexT = TypeVar("IndexT", bound=Index)

Subscriber = Callable[[Event], None]
Reactor = Callable[[str, Event], None]

DEFAULT_HISTORY = 50_000
"""Capacity of the history of each resource in events (temporarily up to twice that)."""


class Bucket:
    """All objects of one resource, their history and the subscribers to their changes."""

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
        self._indexes: dict[type[Index], Index] = {}

    def bucket(self, name: str) -> Bucket:
        """Return the bucket `name`, created on first use."""
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = Bucket(self._history)
        return found

    def buckets(self) -> list[str]:
        """Return the names of all buckets in use."""
        return list(self._buckets)

    def get(self, bucket: str, key: Key) -> Version | None:
        """Return the current version of an object, None if it does not exist."""
        found: Version | None = self.bucket(bucket).objects.get(key)
        return found

    def put(self, bucket: str, key: Key, obj: Json) -> Version:
        """Create or replace an object. An object equal to the stored one keeps its revision and emits no event."""
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
        """Delete an object; the returned version has the revision of the deletion. KeyError if it does not exist."""
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
        """Yield current versions in order, of one namespace or ("") of all, after the key `after`."""
        objects = self.bucket(bucket).objects
        if not namespace and after is None:
            return iter(objects.values())
        low = after if after is not None else (namespace, "")
        high = (namespace, "\U0010ffff") if namespace else None
        return (objects[key] for key in objects.irange(low, high, inclusive=(after is None, True)))

    def scan_at(self, bucket: str, revision: int, namespace: str = "", after: Key | None = None) -> Iterator[Version]:
        """Yield versions as `scan` does, as of `revision`. ApiError 410 if it is compacted, 504 if in the future."""
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

    def index(self, kind: type[IndexT]) -> IndexT:
        """Return the index of a class; it is filled on first use and then follows every change of its bucket."""
        found = self._indexes.get(kind)
        if isinstance(found, kind):
            return found
        index = self._indexes[kind] = kind()
        for version in self.scan(kind.bucket):
            index.change(None, version.object)
        self.subscribe(kind.bucket, partial(_update_index, index))
        return index

    def subscribe(self, bucket: str, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each new event of `bucket`; the returned function unsubscribes."""
        subscribers = self.bucket(bucket).subscribers
        subscribers[subscriber] = None
        return lambda: subscribers.pop(subscriber, None)

    def compact(self, revision: int | None = None) -> None:
        """Drop history up to `revision` (all of it by default), as etcd's compaction does."""
        for bucket in self._buckets.values():
            bucket.history.compact(self.revision if revision is None else revision)


def _update_index(index: Index, event: Event) -> None:
    before = event.previous.object if event.previous is not None else None
    index.change(before, None if event.kind == DELETED else event.version.object)
