"""Pods in an order that a plugin gives, and that a broken plugin cannot break.

Sort keys come from outside: computing or comparing them may raise, now or later. A pod whose key does not work is kept
beside the others under a stand-in key that always does, and whichever list has the better head by stand-in key goes
first, so that no pod is lost or starved.
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
"""Key, arrival, pod: equal keys are told apart by arrival, so two pods are never compared."""


class OrderedPods:
    """Pods by ascending `key`, ties by arrival; adding, removing and popping take O(log n).

    `stand_in` must give keys that always compare; `failed` is told whatever the plugin's key raised.
    """

    def __init__(self, key: SortKey, stand_in: SortKey, failed: Callable[[BaseException], None]) -> None:
        self._key = key
        self._stand_in = stand_in
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
        """The pods that have a key in their order, then those that have none in theirs."""
        yield from (queued for _, _, queued in self._ranked)
        yield from (queued for _, _, queued in self._unsortable)

    def get(self, uid: str) -> QueuedPod | None:
        entry = self._ranked_entries.get(uid) or self._unsortable_entries.get(uid)
        return entry[2] if entry else None

    def add(self, queued: QueuedPod) -> None:
        """Put a pod in that is not there yet."""
        self._insert(queued, next(self._arrivals))

    def replace(self, pod: Pod) -> bool:
        """Take a new version of a pod in, which may change its place but not its arrival; False if it is not there."""
        entry = self._take_out(pod.uid)
        if entry is None:
            return False
        _, arrival, queued = entry
        queued.pod = pod
        self._insert(queued, arrival)
        return True

    def remove(self, uid: str) -> QueuedPod | None:
        """Take the pod out; None if it is not there."""
        entry = self._take_out(uid)
        return entry[2] if entry else None

    def first(self) -> QueuedPod | None:
        """The pod that `pop` would give."""
        if self._unsortable and self._unsortable_is_first():
            return self._queued(self._unsortable[0])
        return self._queued(self._ranked[0]) if self._ranked else None

    def pop(self) -> QueuedPod | None:
        """Take the first pod out; None if there is none."""
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
        return bool(self._unsortable[0][0] < self._stand_in(self._ranked[0][2]))

    def _insert(self, queued: QueuedPod, arrival: int) -> None:
        try:
            entry = (self._key(queued), arrival, queued)
            self._ranked.add(entry)
        except BaseException as error:
            self._count(error)
            self._insert_unsortable(queued, arrival)
        else:
            self._ranked_entries[queued.pod.uid] = entry

    def _count(self, error: BaseException) -> None:
        if is_external(error):
            raise error
        self._failed(error)

    def _insert_unsortable(self, queued: QueuedPod, arrival: int) -> None:
        entry = (self._stand_in(queued), arrival, queued)
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
                # Raised by the comparison, or "not in list" because the order has changed under our feet.
                self._count(error)
                self._rank_afresh(self._ranked_entries.values())
        return entry

    def _rank_afresh(self, entries: Iterable[Entry]) -> None:
        waiting = sorted(entries, key=lambda entry: entry[1])
        self._ranked = SortedList()
        self._ranked_entries = {}
        for _, arrival, queued in waiting:
            self._insert(queued, arrival)
