"""Work on pending pods that is done in slices: event evaluations, ends of backoffs, readmissions.

kube-scheduler holds its queue's lock while it moves pods (moveAllToActiveOrBackoffQueue), and with 100,000 of them that
takes seconds. Here the same thread reads the watches, so one call handles a slice and the rest follows in later calls.
No pod is popped before the backlog is empty.

Invariant: once the backlog is empty, each pod is where it would be if every event had moved all pods at once.
- Tasks run in the order of their events, with the time of the event.
- An event is evaluated once for all pods for which the queueing hints return the same (`unschedulable.HintGroup`).
- Each pod has the number of the last event evaluated for it alone (`QueuedPod.last_event_number`). A pod that enters
  the unschedulable tier from outside is up to date, by the replay of the events in flight or by its new attempt; one
  that only changes its gate keeps its number. So each event is evaluated once per pod, in order.
- A change of a single pod first evaluates its outstanding events (`SchedulingQueue.update`, `activate`).
- Events are recorded at once for the pods in flight, which are in no tier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from pyscheduler.api.events import ANY_RESOURCE, Action, ClusterEvent
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue import labels
from pyscheduler.core.queue.hints import QueueingStrategy
from pyscheduler.core.queue.rejections import ProfilePlugin
from pyscheduler.core.queue.unschedulable import GroupKey, HintGroup

SLICE = 500
"""Pods, or groups of equal pods, that one call processes: a hint and a move to another tier take 10 to 20 µs."""
MIN_MOVES = 16
"""Number of moves that may be queued whatever the number of pods."""
MAX_EVALUATIONS = 2_000_000
"""Maximum of groups of pods times queued moves. Twenty evaluations cost about as much as an attempt, and no attempt
starts meanwhile: beyond the limit all pods are retried as if one of the events had helped, as with
`inflight.MOST_EVENTS`.
"""
TIMEOUT = ClusterEvent(ANY_RESOURCE, Action.ALL, label=labels.UNSCHEDULABLE_TIMEOUT)
TOO_MANY = ClusterEvent(ANY_RESOURCE, Action.ALL, label=labels.TOO_MANY_EVENTS)


@dataclass(slots=True, eq=False, kw_only=True)
class _RemainingSteps:
    steps: Iterator[bool] | None = None
    """Remaining steps; None before the first slice."""


@dataclass(slots=True, eq=False)
class Move(_RemainingSteps):
    """Evaluation of one event for the pods in the unschedulable tier."""

    number: int
    at: float
    event: ClusterEvent
    plugins: Sequence[ProfilePlugin] | None
    """Only pods rejected by these plugins are evaluated; None: every pod that is not gated."""
    only: Callable[[QueuedPod], bool] | None = None
    """Further condition for the pods."""
    narrowed: bool = False
    """True if few pods are evaluated, those that use the object of the event."""
    with_gated: bool = False
    """True to evaluate all gated pods as well."""
    strategies: dict[GroupKey, QueueingStrategy] = field(default_factory=dict)
    """Effect of the event on the pods of a group."""
    gate_results: dict[Hashable, bool] = field(default_factory=dict)
    """PreEnqueue results shared by pods with the same gate (`PreEnqueuePlugin.gate_key`); True if gated."""
    label: str = field(init=False)
    """Label of the event in metrics."""

    def __post_init__(self) -> None:
        self.label = labels.label_of(self.event)

    @property
    def pod_uid(self) -> str:
        """UID of the pod that the event is about, for which hints may return another result; "" if there is none."""
        changed = self.event.new or self.event.old
        return changed.uid if isinstance(changed, Pod) else ""

    def concerns(self, group: HintGroup) -> bool:
        """Return True if the event has to be evaluated for the pods of the group."""
        if self.plugins is not None:
            return not set(self.plugins).isdisjoint(group.plugins)
        return self.with_gated or not group.is_gated


@dataclass(slots=True, eq=False)
class Release(_RemainingSteps):
    """End of the backoffs that have expired at this time."""

    at: float


@dataclass(slots=True, eq=False)
class Readmission(_RemainingSteps):
    """Admission of all pods by new plugins, after a reconfiguration."""

    number: int
    at: float
    pods: Iterator[QueuedPod]


Task = Move | Release | Readmission


class Backlog(deque[Task]):
    """FIFO of tasks; numbers the events."""

    def __init__(self) -> None:
        super().__init__()
        self._moves = 0  # that are evaluated for all pods
        self.number = 0
        """The number of the newest event."""

    def first(self) -> Task | None:
        """Return the current task, or None."""
        return self[0] if self else None

    def finish(self) -> None:
        """Remove the first task."""
        task = self.popleft()
        if isinstance(task, Move):
            self._moves -= not task.narrowed

    def move(
        self,
        event: ClusterEvent,
        at: float,
        plugins: Sequence[ProfilePlugin] | None,
        only: Callable[[QueuedPod], bool] | None = None,
        *,
        narrowed: bool = False,
    ) -> Move:
        """Add the evaluation of a new event. One that is `narrowed` to few pods does not count toward the limit."""
        self.number += 1
        self._moves += not narrowed
        move = Move(self.number, at, event, plugins, only, narrowed)
        self.append(move)
        return move

    def release(self, at: float) -> None:
        """Add the end of the backoffs that have expired at this time."""
        self.append(Release(at))

    def restart(self, at: float, pods: Iterator[QueuedPod]) -> None:
        """Replace all tasks by the readmission of every pod, which makes earlier events irrelevant."""
        self.clear()
        self._moves = 0
        self.append(Readmission(self.number, at, pods))

    def limit(self, groups: int) -> None:
        """Replace all moves by one that retries every pod if there are too many evaluations for `groups` of pods."""
        if self._moves <= max(MIN_MOVES, MAX_EVALUATIONS // max(1, groups)):
            return
        last = next(task for task in reversed(self) if isinstance(task, Move))
        others = [task for task in self if not isinstance(task, Move)]
        self.clear()
        self.extend([*others, Move(last.number, last.at, TOO_MANY, None, with_gated=True)])
        self._moves = 1
