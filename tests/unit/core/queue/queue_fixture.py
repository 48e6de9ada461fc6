"""Scheduling queue with fake plugins, a virtual clock, and an instrument that records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from pyscheduler.api import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Handle,
    NoArgs,
    Pod,
    PreEnqueuePlugin,
    QueuedPod,
    QueueingHint,
    QueueSortPlugin,
    Rejection,
)
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.queue import Backoff, Nominator, QueueProfile, SchedulingQueue
from pyscheduler.core.queue.backoff import EARLY_POP_DELAY
from pyscheduler.core.queue.hints import HintScope
from pyscheduler.testing.builders import pod

NO_HANDLE = cast(Handle, None)
PROFILE = "default-scheduler"

NODE_ADDED = ClusterEvent("Node", Action.ADD)
NODE_LABELLED = ClusterEvent("Node", Action.UPDATE_NODE_LABEL)
POD_DELETED = ClusterEvent("AssignedPod", Action.DELETE)
LABELLED = ClusterEvent("UnscheduledPod", Action.UPDATE_POD_LABEL)


class PrioritySort(QueueSortPlugin):
    """Sort by descending priority, then by time, as kube-scheduler's plugin of that name."""

    name = "PrioritySort"

    def __init__(self) -> None:
        super().__init__(NoArgs(), NO_HANDLE)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return (-queued.pod.priority, queued.timestamp)


class Gate(PreEnqueuePlugin):
    """Gates the pods with names in `closed_to`, and raises for those in `raises_for`."""

    def __init__(self, name: str = "Gate", closed_to: Iterable[str] = ()) -> None:
        super().__init__(NoArgs(), NO_HANDLE)
        self.name = name  # type: ignore[misc]
        self.closed_to = set(closed_to)
        self.raises_for: set[str] = set()
        self.calls: list[str] = []

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        self.calls.append(pod.name)
        if pod.name in self.raises_for:
            raise RuntimeError("gate is broken")
        return Rejection("closed", resolvable=False) if pod.name in self.closed_to else None


class Report(Instrument):
    """Instrument that records incoming pods and failures."""

    def __init__(self) -> None:
        self.incoming: list[tuple[str, str]] = []
        self.failures: list[tuple[str, str]] = []
        self.errors: list[BaseException] = []

    def queue_incoming(self, queue: str, event: str) -> None:
        self.incoming.append((queue, event))

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        self.failures.append((plugin, point))
        self.errors.append(error)


def always(pod: Pod, event: ClusterEvent) -> QueueingHint:
    return QueueingHint.QUEUE


def never(pod: Pod, event: ClusterEvent) -> QueueingHint:
    return QueueingHint.SKIP


def broken(pod: Pod, event: ClusterEvent) -> QueueingHint:
    raise RuntimeError("hint is broken")


ON_NODE_ADD = ClusterEventWithHint("Node", Action.ADD)
ON_POD_DELETE = ClusterEventWithHint("Pod", Action.DELETE)
INTERESTS = (
    ("Fit", ON_POD_DELETE),
    ("Affinity", ON_NODE_ADD),
    ("Gate", ClusterEventWithHint("Pod", Action.UPDATE_POD_LABEL)),
)
"""Fit registers for deleted pods, Affinity for new nodes, Gate for changes of the pod's labels."""


class QueueFixture:
    """Queue under test and the time in seconds."""

    def __init__(
        self,
        events_to_register: tuple[tuple[str, ClusterEventWithHint], ...] = INTERESTS,
        gates: tuple[Gate, ...] = (),
        sort: QueueSortPlugin | None = None,
        backoff: Backoff = Backoff(),  # noqa: B008 - frozen
        others: Mapping[str, QueueProfile] | None = None,
        scopes: Mapping[str, HintScope] | None = None,
    ) -> None:
        self.report = Report()
        self.now = 100.0
        profile = QueueProfile(sort or PrioritySort(), gates, events_to_register, scopes or {})
        self.queue = SchedulingQueue(
            {PROFILE: profile, **(others or {})}, backoff, self.report, Nominator(), PodGroupManager(self.report)
        )

    def add(self, *pods: Pod | str) -> None:
        for each in pods:
            self.queue.add(pod(each).build() if isinstance(each, str) else each, self.now)

    def pass_to(self, time: float) -> None:
        """Advance the time to `time` with a tick at each `next_wake`; pops nothing."""
        while (wake := self.queue.next_wake()) is not None and wake <= time:
            self.now = max(self.now, wake)
            self.tick()
            if self.queue.next_wake() == wake:
                break  # it waits for a pop
        self.now = time
        self.tick()

    def tick(self) -> None:
        """Tick and process the backlog."""
        self.queue.tick(self.now)
        self.queue.process_backlog()

    def rest(self) -> None:
        """Advance the time by the delay of early pops."""
        self.now += EARLY_POP_DELAY

    def pop(self) -> str | None:
        """Pop a pod and return its name, or None."""
        queued = self.queue.pop(self.now)
        return queued.pod.name if queued else None

    def pop_all(self) -> list[str]:
        names = []
        while (name := self.pop()) is not None:
            names.append(name)
        return names

    def take(self) -> QueuedPod:
        queued = self.queue.pop(self.now)
        assert queued is not None, "nothing to pop"
        return queued

    def fail(self, queued: QueuedPod, *rejected_by: str, pending: Iterable[str] = ()) -> None:
        """End the attempt: rejected by these plugins, or with an error if there are none."""
        self.queue.add_unschedulable(queued, queued.pod, set(rejected_by), set(pending), self.now)

    def try_and_fail(self, *rejected_by: str, pending: Iterable[str] = ()) -> str:
        queued = self.take()
        self.fail(queued, *rejected_by, pending=pending)
        return queued.pod.name

    def move(self, event: ClusterEvent, only: Callable[[Pod], bool] | None = None) -> int:
        self.queue.move_all(event, self.now, only and (lambda queued: only(queued.pod)))
        return self.queue.process_backlog()

    def counts(self) -> tuple[int, int, int, int]:
        """Return the number of active, backoff, unschedulable and gated pods."""
        counts = self.queue.pending_counts()
        return counts["active"], counts["backoff"], counts["unschedulable"], counts["gated"]
