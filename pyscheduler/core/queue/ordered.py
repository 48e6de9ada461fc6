"""Pods sorted by a plugin's sort key, with a fallback key in case the plugin raises: the active queue.

Computing or comparing a plugin's keys may raise, now or later. A pod with a key that fails is held in a second list
by its fallback key. The list with the smaller head by fallback key is popped first, so that no pod is lost or starved.

Additions are sorted at the next read: an event may wake 50,000 pods, and sorting them together is ten times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any

from sortedcontainers import SortedList

from pyscheduler.api.plugin import QueueSortPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.framework.plugin_failure import PluginFailed, is_external
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.entry import TierIndex

QUEUE_SORT = "QueueSort"
"""Name of the point passed to `Instrument.plugin_failed` when the sort key fails."""
SortKey = Callable[[QueuedPod], Any]
Entry = tuple[Any, int, QueuedPod]
"""Key, arrival, pod: arrivals break ties of keys, so two pods are never compared."""
_ARRIVALS = count()
"""Numbers of the entries, which keep them when they are moved to another queue."""
_FEW = 8
"""Additions are sorted into the other entries if those are fewer than this many times as many."""
_SPARE = 64
"""Number of entries of removed pods that are kept whatever the number of pods."""


class _SortedEntries:
    """Entries in ascending order: a sorted list, and a heap of the few that were added since it was sorted.

    An entry that is no longer the `current` one of its pod is dropped when it comes first.
    """

    __slots__ = ("_current", "_heap", "_sorted", "added")

    def __init__(self, current: Mapping[str, Entry], ascending: list[Entry] | None = None) -> None:
        self._current = current
        self._sorted = (ascending or [])[::-1]
        """Entries in descending order: the first one is popped from the end."""
        self._heap: list[Entry] = []
        self.added: list[Entry] = []
        """New entries, to be sorted at the next read."""

    def pop(self) -> Entry | None:
        """Remove and return the first entry, or return None. Raises what a comparison of keys raises."""
        if self.added:
            self._sort_added()
        entries, heap, current = self._sorted, self._heap, self._current
        while entries or heap:
            entry = heappop(heap) if heap and (not entries or heap[0] < entries[-1]) else entries.pop()
            if current.get(entry[2].pod.uid) is entry:
                return entry
        return None

    def peek(self) -> Entry | None:
        """Return the first entry if it is found without sorting, else None."""
        if self.added or self._heap or not self._sorted:
            return None
        entry = self._sorted[-1]
        return entry if self._current.get(entry[2].pod.uid) is entry else None

    def put_back(self, entry: Entry) -> None:
        """Put the entry back that `pop` has just returned."""
        self._sorted.append(entry)

    def all(self) -> list[Entry]:
        """Return the current entries in ascending order."""
        self._sort()
        current = self._current
        self._sorted = [entry for entry in self._sorted if current.get(entry[2].pod.uid) is entry]
        return self._sorted[::-1]

    def _sort(self) -> None:
        self._sorted += self._heap
        self._sorted += self.added
        self._heap, self.added = [], []
        self._sorted.sort(reverse=True)

    def _sort_added(self) -> None:
        unsorted = len(self._heap) + len(self.added)
        if len(self._sorted) + unsorted > 2 * len(self._current) + _SPARE:
            self.all()
        elif len(self._sorted) < _FEW * unsorted:
            self._sort()
        else:
            for entry in self.added:
                heappush(self._heap, entry)
            self.added.clear()


class OrderedPods:
    """Pods by ascending `key`, ties by arrival; adding, removing and popping take O(log n) on average.

    Keys of `fallback` must always be comparable; `failed` is called with each exception of the plugin's key. Every pod
    in it has an entry in `index`.
    """

    def __init__(
        self, key: SortKey, fallback: SortKey, failed: Callable[[BaseException], None], index: TierIndex
    ) -> None:
        self._key = key
        self._fallback = fallback
        self._failed = failed
        self._index = index
        self.entries: dict[str, Entry] = {}
        """Entries of all pods by UID."""
        self._ranked = _SortedEntries(self.entries)
        self._unsortable = _SortedEntries(self.entries)
        """Entries with fallback keys."""
        self._has_unsortable = False
        """True once the plugin has raised: `_unsortable` is read only then."""

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over the pods with a working key in order, then over the others in theirs."""
        try:
            ranked = self._ranked.all()
        except BaseException as error:
            self._rebuild_after(error)
            ranked = self._ranked.all()
        yield from (queued for _, _, queued in ranked)
        yield from (queued for _, _, queued in self._unsortable.all())

    def get(self, uid: str) -> QueuedPod | None:
        entry = self.entries.get(uid)
        return entry[2] if entry else None

    def add(self, queued: QueuedPod, arrival: int | None = None) -> None:
        """Add a pod that is not in yet, as the latest arrival by default."""
        uid = queued.pod.uid
        arrival = next(_ARRIVALS) if arrival is None else arrival
        self._index[uid] = self
        try:
            self.entries[uid] = entry = (self._key(queued), arrival, queued)
        except BaseException as error:
            self._add_unsortable(arrival, queued, error)
        else:
            self._ranked.added.append(entry)

    def replace(self, pod: Pod) -> None:
        """Replace a pod that is in by its new version with the same arrival."""
        _, arrival, queued = self.entries.pop(pod.uid)
        queued.pod = pod
        self.add(queued, arrival)

    def remove(self, uid: str) -> QueuedPod:
        """Remove and return a pod that is in."""
        _, _, queued = self.entries.pop(uid)
        del self._index[uid]
        return queued

    def first(self) -> QueuedPod | None:
        """Return the pod that `pop` would return, or None."""
        if not self.entries:
            return None
        entry = None if self._has_unsortable else self._ranked.peek()
        if entry is None:
            pods, entry = self._take_first()
            pods.put_back(entry)
        return entry[2]

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod, or return None if there is none."""
        if not self.entries:
            return None
        _, (_, _, queued) = self._take_first()
        uid = queued.pod.uid
        del self.entries[uid], self._index[uid]
        return queued

    def take(self, others: OrderedPods) -> Iterator[QueuedPod]:
        """Move all pods of a queue with the same sort key here, one by one and in their order."""
        while others.entries:
            pods, entry = others._take_first()
            queued = entry[2]
            uid = queued.pod.uid
            del others.entries[uid]
            if pods is others._ranked:
                self.entries[uid] = entry
                self._ranked.added.append(entry)
                self._index[uid] = self
            else:
                self.add(queued)
            yield queued

    def _take_first(self) -> tuple[_SortedEntries, Entry]:
        """Remove the first entry from its list. Return both."""
        try:
            first = self._ranked.pop()
        except BaseException as error:
            self._rebuild_after(error)
            first = self._ranked.pop()
        if first is not None and not self._has_unsortable:
            return self._ranked, first
        other = self._unsortable.pop()
        if first is not None and other is not None:
            other_first = other[0] < self._fallback(first[2])
            (self._ranked if other_first else self._unsortable).put_back(first if other_first else other)
            return (self._unsortable, other) if other_first else (self._ranked, first)
        entry = first or other
        assert entry is not None, "there is an entry for each pod"
        return (self._ranked if other is None else self._unsortable), entry

    def _rebuild_after(self, error: BaseException) -> None:
        """Compute the keys anew, and insert the pods one by one to find those that cannot be compared.

        No two of the remaining keys are compared again before a pod is added.
        """
        if is_external(error):
            raise error
        unsortable = {entry[2].pod.uid for entry in self._unsortable.all()}
        others = [entry for uid, entry in self.entries.items() if uid not in unsortable]
        ranked = SortedList()
        for _, arrival, queued in sorted(others, key=lambda entry: entry[1]):
            try:
                entry = self.entries[queued.pod.uid] = (self._key(queued), arrival, queued)
                ranked.add(entry)
            except BaseException as failure:
                self._add_unsortable(arrival, queued, failure)
        self._ranked = _SortedEntries(self.entries, list(ranked))

    def _add_unsortable(self, arrival: int, queued: QueuedPod, error: BaseException) -> None:
        if is_external(error):
            raise error
        self._failed(error)
        entry = self.entries[queued.pod.uid] = (self._fallback(queued), arrival, queued)
        self._unsortable.added.append(entry)
        self._has_unsortable = True


class ActiveQueue(OrderedPods):
    """kube-scheduler's activeQ; pods with equal sort keys are in the order of their arrival."""

    def __init__(
        self, sort: QueueSortPlugin, instrument: Instrument, index: TierIndex, first: SortKey | None = None
    ) -> None:
        """Sort by the plugin, or by the key `first` before."""
        super().__init__(
            key=sort.sort_key if first is None else lambda queued: (first(queued), sort.sort_key(queued)),
            fallback=by_priority_and_time,
            failed=report_sort_failure(sort, instrument),
            index=index,
        )


def report_sort_failure(sort: QueueSortPlugin, instrument: Instrument) -> Callable[[BaseException], None]:
    """Return a function that reports an exception of the QueueSort plugin."""
    return lambda error: PluginFailed(sort.name, QUEUE_SORT, error).report_to(instrument)


def by_priority_and_time(queued: QueuedPod) -> tuple[int, float]:
    """Return PrioritySort's sort key, the fallback if the QueueSort plugin raises."""
    return (-queued.pod.priority, queued.timestamp)
