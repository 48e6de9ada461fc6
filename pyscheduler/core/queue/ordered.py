"""Pods sorted by a plugin's sort key, with a fallback key in case the plugin raises: the active queue.

Computing or comparing a plugin's keys may raise, now or later. A pod with a key that fails is held in a second list
by its fallback key. The list with the smaller head by fallback key is popped first, so that no pod is lost or starved.

Additions are sorted at the next read: an event may wake 50,000 pods, and sorting them together is ten times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from sortedcontainers import SortedList

from pyscheduler.api.plugin import QueueSortPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.framework.plugin_failure import is_external
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.entry import TierIndex

QUEUE_SORT = "QueueSort"
"""Name of the point passed to `Instrument.plugin_failed` when the sort key fails."""
SortKey = Callable[[QueuedPod], Any]
Entry = tuple[Any, int, QueuedPod]
"""Key, arrival, pod: arrivals break ties of keys, so two pods are never compared."""


class OrderedPods:
    """Pods by ascending `key`, ties by arrival; adding, removing and popping take O(log n).

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
        self._arrivals = count()
        self.entries: dict[str, Entry] = {}
        """Entries of all pods by UID."""
        self._ranked = SortedList()
        self._added: list[Entry] = []
        """Entries to be merged into `_ranked` before it is read."""
        self._unsortable = SortedList()
        self._unsortable_uids: set[str] = set()

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over the pods with a working key in order, then over the others in theirs."""
        self._merge()
        yield from (queued for _, _, queued in self._ranked)
        yield from (queued for _, _, queued in self._unsortable)

    def get(self, uid: str) -> QueuedPod | None:
        entry = self.entries.get(uid)
        return entry[2] if entry else None

    def add(self, queued: QueuedPod, arrival: int | None = None) -> None:
        """Add a pod that is not in yet, as the latest arrival by default."""
        uid = queued.pod.uid
        arrival = next(self._arrivals) if arrival is None else arrival
        self._index[uid] = self
        try:
            entry = (self._key(queued), arrival, queued)
        except BaseException as error:
            self._add_unsortable(arrival, queued, error)
        else:
            self.entries[uid] = entry
            self._added.append(entry)

    def replace(self, pod: Pod) -> None:
        """Replace a pod that is in by its new version with the same arrival."""
        _, arrival, queued = self._take_out(pod.uid)
        queued.pod = pod
        self.add(queued, arrival)

    def remove(self, uid: str) -> QueuedPod:
        """Remove and return a pod that is in."""
        _, _, queued = self._take_out(uid)
        del self._index[uid]
        return queued

    def first(self) -> QueuedPod | None:
        """Return the pod that `pop` would return, or None."""
        if not self.entries:
            return None
        if self._added:
            self._merge()
        queued: QueuedPod = self._first_list()[0][2]
        return queued

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod, or return None if there is none."""
        if not self.entries:
            return None
        if self._added:
            self._merge()
        pods = self._first_list() if self._unsortable_uids else self._ranked
        queued: QueuedPod = pods.pop(0)[2]
        self._unsortable_uids.discard(queued.pod.uid)
        del self.entries[queued.pod.uid], self._index[queued.pod.uid]
        return queued

    def _first_list(self) -> SortedList:
        """Return the list with the first pod."""
        if not self._unsortable or not self._ranked:
            return self._ranked or self._unsortable
        return self._unsortable if self._unsortable[0][0] < self._fallback(self._ranked[0][2]) else self._ranked

    def _report(self, error: BaseException) -> None:
        if is_external(error):
            raise error
        self._failed(error)

    def _take_out(self, uid: str) -> Entry:
        self._merge()
        entry = self.entries.pop(uid)
        if uid in self._unsortable_uids:
            self._unsortable_uids.remove(uid)
            self._unsortable.remove(entry)
            return entry
        try:
            self._ranked.remove(entry)
        except BaseException as error:
            # Raised by the comparison, or ValueError because the order of the keys has changed.
            self._report(error)
            self._rebuild()
        return entry

    def _merge(self) -> None:
        """Sort the added entries into the others."""
        added, self._added = self._added, []
        try:
            self._ranked.update(added)
        except BaseException as error:
            if is_external(error):
                raise
            self._rebuild()

    def _rebuild(self) -> None:
        """Compute the keys anew, and insert the pods one by one to find those that cannot be compared."""
        ranked = [entry for uid, entry in self.entries.items() if uid not in self._unsortable_uids]
        self._ranked, self._added = SortedList(), []
        for _, arrival, queued in sorted(ranked, key=lambda entry: entry[1]):
            try:
                entry = self.entries[queued.pod.uid] = (self._key(queued), arrival, queued)
                self._ranked.add(entry)
            except BaseException as error:
                self._add_unsortable(arrival, queued, error)

    def _add_unsortable(self, arrival: int, queued: QueuedPod, error: BaseException) -> None:
        self._report(error)
        entry = self.entries[queued.pod.uid] = (self._fallback(queued), arrival, queued)
        self._unsortable.add(entry)
        self._unsortable_uids.add(queued.pod.uid)


class ActiveQueue(OrderedPods):
    """kube-scheduler's activeQ; pods with equal sort keys are in the order of their arrival."""

    def __init__(self, sort: QueueSortPlugin, instrument: Instrument, index: TierIndex) -> None:
        super().__init__(
            key=sort.sort_key,
            fallback=by_priority_and_time,
            failed=lambda error: instrument.plugin_failed(sort.name, QUEUE_SORT, error),
            index=index,
        )


def by_priority_and_time(queued: QueuedPod) -> tuple[int, float]:
    """Return PrioritySort's sort key, the fallback if the QueueSort plugin raises."""
    return (-queued.pod.priority, queued.timestamp)
