"""Work on waiting pods that is done in slices: events that are still to be weighed, backoffs that end, readmissions.

kube-scheduler holds its queue's lock while it moves pods (moveAllToActiveOrBackoffQueue), and with 100,000 of them that
takes seconds. Here the same thread reads the watches, so one call handles a slice and the rest follows in later calls.
No pod is popped before the backlog is empty.

The invariant: once the backlog is empty, each pod is where it would be if every event had moved all pods at once.
- Tasks are worked off in the order in which their events happened, each by the time of its event.
- A pod carries the number of the last event that it was weighed against (`QueuedPod.last_event_number`). One that enters the
  unschedulable tier from outside has seen everything up to then, by the replay of the events in flight or by its new
  attempt; one that is only parked under another gate keeps its number. So each event is weighed once, in order.
- Whatever changes a single pod catches up with its events first (`SchedulingQueue.update`, `activate`).
- Events are recorded for the pods in flight at once: those are in no tier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from pyscheduler.api.events import ANY_RESOURCE, Action, ClusterEvent
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue import labels
from pyscheduler.core.queue.rejectors import Waker

SLICE = 500
"""Waiting pods that one call looks at: a hint and a move to another tier take 10 to 20 µs together."""
FEWEST_MOVES = 16
"""Events that may always wait to be weighed."""
MOST_WEIGHINGS = 2_000_000
"""Pods times events that may wait. To weigh twenty events costs about as much as an attempt, and no pod is tried
meanwhile: beyond this, all pods are retried as if one of the events had helped, as those in flight are beyond
`inflight.MOST_EVENTS`.
"""
TIMEOUT = ClusterEvent(ANY_RESOURCE, Action.ALL, label=labels.UNSCHEDULABLE_TIMEOUT)
TOO_MANY = ClusterEvent(ANY_RESOURCE, Action.ALL, label=labels.TOO_MANY_EVENTS)


@dataclass(slots=True, eq=False)
class Move:
    """An event that pods in the unschedulable tier are weighed against."""

    number: int
    at: float
    event: ClusterEvent
    wakers: Sequence[Waker] | None
    """Plugins that have rejected the pods it may wake; None: every pod that is not gated."""
    only: Callable[[QueuedPod], bool] | None = None
    """Narrows the pods further."""
    with_gated: bool = False
    """Gated pods are weighed as well, whatever gates them."""
    pods: Iterator[QueuedPod] | None = None
    """The pods that are still to be looked at; None before the first slice."""
    shut: dict[Hashable, bool] = field(default_factory=dict)
    """Results of the gates' PreEnqueue for pods that share a gate (`PreEnqueuePlugin.gate_key`)."""


@dataclass(slots=True, eq=False)
class Release:
    """Backoffs that end at this time."""

    at: float


@dataclass(slots=True, eq=False)
class Readmission:
    """Pods that enter the queue anew, under other plugins."""

    number: int
    at: float
    pods: Iterator[QueuedPod]


Task = Move | Release | Readmission


class Backlog:
    """The tasks in their order, and the numbers of events."""

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()
        self._moves = 0
        self.number = 0
        """The number of the newest event."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    def first(self) -> Task | None:
        """The task to go on with, or None."""
        return self._tasks[0] if self._tasks else None

    def finish(self) -> None:
        """The first task is done."""
        if isinstance(self._tasks.popleft(), Move):
            self._moves -= 1

    def move(
        self,
        event: ClusterEvent,
        at: float,
        wakers: Sequence[Waker] | None,
        only: Callable[[QueuedPod], bool] | None = None,
    ) -> Move:
        """Add an event that has just happened."""
        self.number += 1
        self._moves += 1
        move = Move(self.number, at, event, wakers, only)
        self._tasks.append(move)
        return move

    def release(self, at: float) -> None:
        """Add the end of backoffs."""
        self._tasks.append(Release(at))

    def restart(self, at: float, pods: Iterator[QueuedPod]) -> None:
        """Drop all tasks: every pod is admitted anew, which makes earlier events irrelevant."""
        self._tasks.clear()
        self._moves = 0
        self._tasks.append(Readmission(self.number, at, pods))

    def limit(self, waiting: int) -> None:
        """Replace the events by one that may help every pod if more wait than can be weighed in reasonable time."""
        if self._moves <= max(FEWEST_MOVES, MOST_WEIGHINGS // max(1, waiting)):
            return
        last = next(task for task in reversed(self._tasks) if isinstance(task, Move))
        kept: list[Task] = [task for task in self._tasks if not isinstance(task, Move)]
        self._tasks = deque([*kept, Move(last.number, last.at, TOO_MANY, None, with_gated=True)])
        self._moves = 1
