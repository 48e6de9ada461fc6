"""What the parts of the machine share: one cluster, one queue, the profiles, and the pods by their place in life.

    unknown ──seen──▶ pending ──attempt──▶ assumed ──bound──▶ placed ──gone──▶ unknown
                        ▲  (in the queue)     │  (waiting in Permit, then binding)
                        └─────── failed ──────┘

A pod is pending, assumed or placed, never two of them; `invariants.validate` checks that after every test.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.events import ANYTHING, ClusterEvent
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.changes import pod_deleted, pod_events
from pyscheduler.core.confirmation import Unconfirmed
from pyscheduler.core.decide.decider import Decider
from pyscheduler.core.decide.dry_run import DryRunner
from pyscheduler.core.decide.extender_decider import ExtenderDecider
from pyscheduler.core.decide.order import NextStartNode
from pyscheduler.core.extender import EXTENDER, Extender
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument, Point
from pyscheduler.core.queue import SLICE, Backoff, QueueProfile, SchedulingQueue
from pyscheduler.core.queue.labels import NOMINATED_NODE_CHANGED
from pyscheduler.core.queue.nominator import FreedNomination
from pyscheduler.core.state import ClusterState, PodSignatures
from pyscheduler.core.state.shared_images import SharedImages


class AssumedStage(enum.Enum):
    """Where an assumed pod is on its way to its node."""

    WAITING = enum.auto()
    """Parked by Permit."""
    BINDING = enum.auto()
    """The shell runs its binding cycle."""
    BOUND = enum.auto()
    """The API server has accepted the binding; the watch has not shown it yet."""


class AssumedPod(msgspec.Struct, eq=False):
    """A pod whose place on a node is taken in memory before the API server knows."""

    queued: QueuedPod
    pod: Pod
    node_name: str
    cycle: Cycle
    profile: Profile
    stage: AssumedStage = AssumedStage.WAITING
    confirmed: bool = False
    """Whether the watch has shown the pod on its node; binding may still be under way here."""


class SuspendedAttempt(msgspec.Struct, eq=False):
    """An attempt in steps, for `pod`, between two of them; as long as there is one, no other is made."""

    queued: QueuedPod
    pod: Pod
    steps: Generator[Any, Any, Any]
    """The attempt itself, up to its commands."""
    id: int = 0
    """Which of all extender_rounds: an answer to an earlier one comes too late."""
    outdated: bool = False
    """Something has changed since that voids the attempt: it is to be made anew."""
    paused: bool = False
    """No answer is waited for: the next call of `cycle` goes on."""


class Settings(msgspec.Struct, frozen=True):
    """What the machine needs of the configuration; times in seconds."""

    seed: int = 0
    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_in_unschedulable: float = 300.0
    slice_pods: int = SLICE
    """Upper bound of waiting pods that one call looks at."""
    extenders: tuple[Extender, ...] = ()
    """In the order in which they are asked."""


class Points(msgspec.Struct, frozen=True):
    """The extension points of a profile that come when a node has been chosen, as the instrument is told of them."""

    reserve: Point
    unreserve: Point
    permit: Point
    pre_bind_pre_flight: Point

    @staticmethod
    def of(profile: str, instrument: Instrument) -> Points:
        """Those of a profile."""
        names = ("Reserve", "Unreserve", "Permit", "PreBindPreFlight")
        return Points(*(instrument.point(name, profile) for name in names))


class Context(msgspec.Struct, eq=False):
    """The machine's whole memory."""

    profiles: Mapping[str, Profile]
    handle: CoreHandle
    instrument: Instrument
    settings: Settings
    queue: SchedulingQueue
    state: ClusterState = msgspec.field(default_factory=ClusterState)
    shapes: PodSignatures = msgspec.field(default_factory=PodSignatures)
    images: SharedImages = msgspec.field(default_factory=SharedImages)
    deciders: dict[str, Decider] = msgspec.field(default_factory=dict)
    points: dict[str, Points] = msgspec.field(default_factory=dict)
    pods: dict[str, Pod] = msgspec.field(default_factory=dict)
    """Every known pod by UID, as last seen."""
    uid_of: dict[str, str] = msgspec.field(default_factory=dict)
    """The UID of the pod of that namespace/name."""
    assumed: dict[str, AssumedPod] = msgspec.field(default_factory=dict)
    unconfirmed: Unconfirmed = msgspec.field(default_factory=Unconfirmed)
    """AssumedPod pods with accepted bindings."""
    cancelled_bindings: list[str] = msgspec.field(default_factory=list)
    """The pods, by UID, that have lost their places while they were being bound; the shell has not been told yet."""
    pending_events: list[ClusterEvent] = msgspec.field(default_factory=list)
    """Events that the plugins of waiting pods have not been run for yet."""
    attempts: int = 0
    """How many there have been."""
    adopting: Iterator[str] | None = None
    """The pods, by UID, among which those of a new profile are still to be found, in the order of their arrival."""
    releasing_waiting_pods: bool = False
    """Pods that Permit has let go of are still to be sent on."""
    extender_deciders: dict[str, ExtenderDecider] = msgspec.field(default_factory=dict)
    """The deciders again, where there are extenders."""
    suspended: SuspendedAttempt | None = None
    extender_rounds: int = 0
    """How often extenders have been asked."""

    @staticmethod
    def build(profiles: Sequence[Profile], handle: CoreHandle, instrument: Instrument, settings: Settings) -> Context:
        """A context with an empty cluster."""
        queue = SchedulingQueue(
            queue_profiles(profiles, settings),
            Backoff(settings.initial_backoff, settings.max_backoff),
            instrument,
            settings.max_in_unschedulable,
            settings.slice_pods,
        )
        context = Context({}, handle, instrument, settings, queue)
        context.use_profiles(profiles)
        return context

    def use_profiles(self, profiles: Sequence[Profile]) -> None:
        """Make attempts by these profiles from now on; answers that were kept for others are forgotten."""
        self.profiles = {p.name: p for p in profiles}
        for profile in profiles:
            self.handle.index(profile.indexes, self.pods.values())
        self.handle.scheduler_names = self.profiles
        self.handle.watched = frozenset(kind for profile in profiles for kind in profile.watches)
        self.handle.count_succeeded(key for profile in profiles for key in profile.succeeded)
        self.handle.dry_runner = DryRunner(self.profiles, self.state, self.queue.nominator)
        self.deciders, self.extender_deciders = {}, {}
        start, share = NextStartNode(), any(e.filters or e.prioritizes for e in self.settings.extenders)
        for profile in profiles:
            parts = profile, self.state, self.queue.nominator, self.instrument, start
            if self.settings.extenders:
                consultant = self.extender_deciders[profile.name] = ExtenderDecider(*parts, share)
                self.deciders[profile.name] = consultant
            else:
                self.deciders[profile.name] = Decider(*parts)
            self.points[profile.name] = Points.of(profile.name, self.instrument)

    @property
    def active_profiles(self) -> dict[str, Profile]:
        """The profiles that decide, and those that do no more but still have pods on their way."""
        return {**{assumed.profile.name: assumed.profile for assumed in self.assumed.values()}, **self.profiles}

    @property
    def needs_events(self) -> bool:
        """Return True if an event may matter to a pod."""
        return self.queue.needs_events or bool(self.handle.waiting)

    def wake(self, events: Sequence[ClusterEvent], now: float) -> None:
        """QueueingStrategy the pods that the events may help, and keep the events for the plugins of waiting pods."""
        self.record_for_waiting_pods(events)
        if not self.queue.needs_events:
            return
        for event in events:
            self.queue.move_all(event, now)

    def record_for_waiting_pods(self, events: Sequence[ClusterEvent]) -> None:
        """Have the Permit plugins of waiting pods run for the events at the end of this call into the machine."""
        if self.handle.waiting:
            self.pending_events += events

    def place_freed(self, pod: Pod, now: float, only: Callable[[Pod], bool] | None = None) -> None:
        """Wake the waiting pods, or `only` some, that the end of a pod on its node may help."""
        freed = pod_deleted(pod)
        self.record_for_waiting_pods((freed,))
        if self.queue.needs_events:
            self.queue.move_all(freed, now, only)
            self.wake_nominated(pod.node_name, now)

    def eviction_ended(self, victim: str, now: float) -> None:
        """Retry the preemptors that waited for this victim last: they have missed the events during the evictions."""
        for uid in self.handle.evictions.end(victim):
            preemptor = self.pods.get(uid)
            if preemptor is not None:
                self.queue.wake(preemptor, NOMINATED_NODE_CHANGED, now)

    def wake_nominated(self, node_name: str, now: float) -> None:
        """Retry the pods nominated to a node that has changed: it may have room now, or never will."""
        for pod in self.queue.nominator.pods_on(node_name):
            self.queue.wake(pod, NOMINATED_NODE_CHANGED, now)

    def wake_for_freed_nominations(self, now: float, exclude: Collection[str] = ()) -> None:
        """Wake the pods that had to leave room for nominated ones which hold it no longer.

        `exclude` are the UIDs of pods that do not want it.
        """
        for freed in self.queue.nominator.take_freed():
            if self.queue.needs_events:
                self._wake_for(freed, now, {freed.before.uid, *exclude})

    def _wake_for(self, freed: FreedNomination, now: float, exclude: Collection[str]) -> None:
        """Only pods of the same or a lower priority had to leave room."""
        before = freed.before.on(freed.node_name)
        before.deleting = False  # nominated pods count until they are gone
        events = [pod_deleted(before)] if freed.after is None else pod_events(before, freed.after.on(freed.node_name))
        for event in events:
            self.queue.move_all(event, now, only=lambda p: p.priority <= before.priority and p.uid not in exclude)

    def is_responsible_for(self, pod: Pod) -> bool:
        """Whether one of our profiles is to schedule the pod."""
        return pod.scheduler_name in self.profiles


def queue_profiles(profiles: Sequence[Profile], settings: Settings) -> dict[str, QueueProfile]:
    """What the queue needs of each profile. Whatever happens may help a pod that an extender has rejected."""
    beyond = ((EXTENDER, ANYTHING),) if settings.extenders else ()
    return {p.name: QueueProfile(p.queue_sort, p.pre_enqueue, (*p.events_to_register, *beyond)) for p in profiles}
