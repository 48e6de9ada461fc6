"""Sorted pods by a plugin's sort key, with a fallback key in case the plugin raises.

Computing or comparing a plugin's keys may raise, now or later. A pod with a key that fails is held in a second list
by its fallback key. The list with the smaller head by fallback key is popped first, so that no pod is lost or starved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

from sortedcontainers import SortedList

from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.framework.plugin_failure import is_external

SortKey = Callable[[QueuedPod], Any]
Entry = tuple[Any, int, QueuedPod]
"""Key, arrival, pod: arrivals break ties of keys, so two pods are never compared."""


class OrderedPods:
    """Pods by ascending `key`, ties by arrival; adding, removing and popping take O(log n).

    Keys of `fallback` must always be comparable; `failed` is called with each exception of the plugin's key.
    """

    def __init__(self, key: SortKey, fallback: SortKey, failed: Callable[[BaseException], None]) -> None:
        self._key = key
        self._fallback = fallback
        self._failed = failed
        self._arrivals = count()
        self._ranked = SortedList()
        self._ranked_entries: dict[str, Entry] = {}
        self._unsortable = SortedList()
        self._unsortable_entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._ranked_entries) + len(self._unsortable_entries)

    def __contains__(self, uid: str) -> bool:
        return uid in self._ranked_entries or uid in self._unsortable_entries

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over the pods with a working key in order, then over the others in theirs."""
        yield from (queued for _, _, queued in self._ranked)
        yield from (queued for _, _, queued in self._unsortable)

    def get(self, uid: str) -> QueuedPod | None:
        entry = self._ranked_entries.get(uid) or self._unsortable_entries.get(uid)
        return entry[2] if entry else None

    def add(self, queued: QueuedPod) -> None:
        """Add a pod that is not in yet."""
        self._insert(queued, next(self._arrivals))

    def replace(self, pod: Pod) -> bool:
        """Replace a pod by its new version with the same arrival; returns False if it is not in."""
        entry = self._take_out(pod.uid)
        if entry is None:
            return False
        _, arrival, queued = entry
        queued.pod = pod
        self._insert(queued, arrival)
        return True

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove and return the pod, or return None."""
        entry = self._take_out(uid)
        return entry[2] if entry else None

    def first(self) -> QueuedPod | None:
        """Return the pod that `pop` would return, or None."""
        if self._unsortable and self._unsortable_is_first():
            return self._queued(self._unsortable[0])
        return self._queued(self._ranked[0]) if self._ranked else None

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod, or return None if there is none."""
        if self._unsortable and self._unsortable_is_first():
            queued = self._queued(self._unsortable.pop(0))
            del self._unsortable_entries[queued.pod.uid]
            return queued
        if not self._ranked_entries:
            return None
        queued = self._queued(self._ranked.pop(0))
        del self._ranked_entries[queued.pod.uid]
        return queued

    @staticmethod
    def _queued(entry: Entry) -> QueuedPod:
        return entry[2]

    def _unsortable_is_first(self) -> bool:
        if not self._ranked_entries:
            return True
        return bool(self._unsortable[0][0] < self._fallback(self._ranked[0][2]))

    def _insert(self, queued: QueuedPod, arrival: int) -> None:
        try:
            entry = (self._key(queued), arrival, queued)
            self._ranked.add(entry)
        except BaseException as error:
            self._report(error)
            self._insert_unsortable(queued, arrival)
        else:
            self._ranked_entries[queued.pod.uid] = entry

    def _report(self, error: BaseException) -> None:
        if is_external(error):
            raise error
        self._failed(error)

    def _insert_unsortable(self, queued: QueuedPod, arrival: int) -> None:
        entry = (self._fallback(queued), arrival, queued)
        self._unsortable.add(entry)
        self._unsortable_entries[queued.pod.uid] = entry

    def _take_out(self, uid: str) -> Entry | None:
        entry = self._unsortable_entries.pop(uid, None)
        if entry is not None:
            self._unsortable.remove(entry)
            return entry
        entry = self._ranked_entries.pop(uid, None)
        if entry is not None:
            try:
                self._ranked.remove(entry)
            except BaseException as error:
                # Raised by the comparison, or ValueError because the order of the keys has changed.
                self._report(error)
                self._rebuild(self._ranked_entries.values())
        return entry

    def _rebuild(self, entries: Iterable[Entry]) -> None:
        waiting = sorted(entries, key=lambda entry: entry[1])
        self._ranked = SortedList()
        self._ranked_entries = {}
        for _, arrival, queued in waiting:
            self._insert(queued, arrival)
