"""State that the parts of the machine share: the cluster, the queue, the profiles, and the pods.

`scheduling/pod_stages.py` has the stages of a pod; `invariants.validate` checks after every test that it is in one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import Any

import msgspec

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.events import ANYTHING, ClusterEvent
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group_plugins import QuotaPlugin
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.changes import pod_deleted, pod_events
from pyscheduler.core.extenders.extender import EXTENDER, Extender
from pyscheduler.core.framework.handle import CoreHandle, build_handle
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.ignored_groups import IgnoredGroups
from pyscheduler.core.pod_groups.learnt_run_times import LearntRunTimes
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.pod_groups.quota_waits import QuotaWaits
from pyscheduler.core.pod_groups.reservation import RESERVATION, Reservations
from pyscheduler.core.queue import SLICE, Backoff, QueueProfile, SchedulingQueue
from pyscheduler.core.queue.hints import HintScope
from pyscheduler.core.queue.labels import NOMINATED_NODE_CHANGED
from pyscheduler.core.queue.nominator import FreedNomination, Nominator
from pyscheduler.core.scheduling.confirmation import Unconfirmed
from pyscheduler.core.scheduling.node_order import NextStartNode
from pyscheduler.core.scheduling.pod_stages import Stage
from pyscheduler.core.scheduling.profile_runtime import Points, ProfileRuntime
from pyscheduler.core.state import ClusterState, PodSignatures
from pyscheduler.core.state.pods_by_importance import PodsByImportance

ProfileBuilder = Callable[[CoreHandle], Sequence[Profile]]
"""Function that returns the profiles with all plugins constructed, given the handle for them."""


class AssumedPod(msgspec.Struct, eq=False):
    """A pod that is counted on its node in memory before the API server has the binding."""

    queued: QueuedPod
    pod: Pod
    node_name: str
    cycle: Cycle
    profile: Profile
    points: Points
    stage: Stage = Stage.ASSUMED
    confirmed: bool = False
    """True once the watch has shown the pod on its node; the binding cycle may still be running here."""


class SuspendedAttempt(msgspec.Struct, eq=False):
    """A scheduling attempt for `pod` that waits for extenders or is paused; no other attempt starts before it ends."""

    queued: QueuedPod
    pod: Pod
    steps: Generator[Any, Any, Any]
    """Generator that runs the attempt and returns its commands."""
    id: int = 0
    """Number of the extender round that the attempt waits for; replies to earlier ones are ignored."""
    is_stale: bool = False
    """True after a change since the pause, or of the configuration: it must start over."""
    paused: bool = False
    """True if the attempt waits for no reply: the next call of `cycle` resumes it."""


class Settings(msgspec.Struct, frozen=True):
    """Configuration of the machine; times in seconds."""

    seed: int = 0
    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_in_unschedulable: float = 300.0
    slice_pods: int = SLICE
    """Maximum number of waiting pods that one call processes."""
    extenders: tuple[Extender, ...] = ()
    """Extenders in the order in which they are called."""
    epoch: float = 0.0
    """Unix time at which the machine's clock is 0, for timestamps of API objects."""
    preempts_for_resizes: bool = False
    """True if assigned pods with a deferred in-place resize are in the queue until the kubelet has made it."""


class Context(msgspec.Struct, eq=False):
    """All state of the machine."""

    profiles: dict[str, Profile]
    """Profiles in use by scheduler name, in the order of the configuration; the handle has the same dict."""
    handle: CoreHandle
    instrument: Instrument
    settings: Settings
    queue: SchedulingQueue
    state: ClusterState
    groups: PodGroupManager
    quota_waits: QuotaWaits
    reservations: Reservations
    pods_by_importance: PodsByImportance
    ignored_groups: IgnoredGroups
    shapes: PodSignatures = msgspec.field(default_factory=PodSignatures)
    runtimes: dict[str, ProfileRuntime] = msgspec.field(default_factory=dict)
    pods: dict[str, Pod] = msgspec.field(default_factory=dict)
    """Latest version of every pod by UID."""
    assumed: dict[str, AssumedPod] = msgspec.field(default_factory=dict)
    unconfirmed: Unconfirmed = msgspec.field(default_factory=Unconfirmed)
    """Assumed pods with accepted bindings."""
    cancelled_bindings: list[str] = msgspec.field(default_factory=list)
    """UIDs of pods that were forgotten during binding, for CancelBinding commands not yet returned."""
    pending_events: list[ClusterEvent] = msgspec.field(default_factory=list)
    """Events that the Permit plugins of waiting pods have not seen yet."""
    attempts: int = 0
    """Number of attempts so far."""
    adopting: Iterator[str] | None = None
    """UIDs of all pods still to be checked for those of a new profile, in the order of their arrival."""
    processing_waiting_pods: bool = False
    """True while pods that Permit has allowed or rejected still have to be processed."""
    suspended: SuspendedAttempt | None = None
    extender_rounds: int = 0
    """Number of extender rounds so far."""

    @staticmethod
    def build(build_profiles: ProfileBuilder, instrument: Instrument, settings: Settings) -> Context:
        """Return a context with an empty cluster."""
        in_use: dict[str, Profile] = {}
        state, groups = ClusterState(), PodGroupManager(instrument)
        nominator = Nominator(groups.effective_priority, groups.queue_of_pod)
        # The queue is created below, with the plugins: they have the handle, and call it only once they run.
        handle = build_handle(state, nominator, in_use, pending_pod=lambda uid: queue.get(uid))
        profiles = build_profiles(handle)
        queue = SchedulingQueue(
            queue_profiles(profiles, settings),
            Backoff(settings.initial_backoff, settings.max_backoff),
            instrument,
            nominator,
            groups,
            settings.max_in_unschedulable,
            settings.slice_pods,
        )
        waits, reservations = QuotaWaits(groups, queue), Reservations(settings.epoch)
        by_importance, ignored = PodsByImportance(state), IgnoredGroups(instrument)
        context = Context(
            in_use, handle, instrument, settings, queue, state, groups, waits, reservations, by_importance, ignored
        )
        context.use_profiles(profiles)
        return context

    def use_profiles(self, profiles: Sequence[Profile]) -> None:
        """Schedule by these profiles from now on, with empty caches."""
        self.profiles.clear()
        self.profiles.update((p.name, p) for p in profiles)
        group_plugins = {p.name: p.pod_group for p in profiles if p.pod_group is not None}
        quota = next((p.quota for p in profiles if p.quota is not None), None)
        members = [pod for pod in self.pods.values() if not pod.node_name or self.state.info(pod.node_name) is not None]
        self.groups.use(group_plugins, quota, members, self.assumed)
        times = self.reservations.times
        times.learnt = (times.learnt or LearntRunTimes()) if quota is not None and quota.learns_run_times else None
        self.quota_waits.clear()
        for profile in profiles:
            self.handle.pods.index(profile.indexes, self.pods.values())
        self.handle.pods.count_succeeded(key for profile in profiles for key in profile.succeeded)
        start, has_scores = NextStartNode(), any(e.filters or e.prioritizes for e in self.settings.extenders)
        self.runtimes = {
            p.name: ProfileRuntime.of(p, self.state, self.queue.nominator, self.instrument, start, has_scores)
            for p in profiles
        }

    @property
    def active_profiles(self) -> dict[str, Profile]:
        """Profiles by name: the configured ones, and former ones that still have assumed pods."""
        return {**{assumed.profile.name: assumed.profile for assumed in self.assumed.values()}, **self.profiles}

    def wake(self, events: Sequence[ClusterEvent], now: float) -> None:
        """Requeue the pods that the events may help, and record the events for the Permit plugins of waiting pods."""
        if self.handle.waiting_pods.by_uid:
            self.pending_events += events
        if self.queue.needs_events:
            for event in events:
                self.queue.move_all(event, now)

    def record_for_waiting_pods(self, events: Sequence[ClusterEvent]) -> None:
        """Record events for the Permit plugins of waiting pods, which run at the end of this call into the machine."""
        if self.handle.waiting_pods.by_uid:
            self.pending_events += events

    def place_freed(self, pod: Pod, now: float, only: Callable[[QueuedPod], bool] | None = None) -> None:
        """Requeue the pods (`only` some) that the removal of `pod` from its node may help."""
        is_awaited = self.queue.needs_events
        if not is_awaited and not self.handle.waiting_pods.by_uid:
            return
        freed = pod_deleted(pod)
        self.record_for_waiting_pods((freed,))
        if is_awaited:
            self.queue.move_all(freed, now, only)
            self.wake_nominated(pod.node_name, now)

    def eviction_ended(self, victim: str, now: float) -> None:
        """Requeue the preemptors that waited for this last victim: they missed the events during the evictions."""
        for uid in self.handle.evictions.end(victim):
            preemptor = self.preemptor(uid)
            if preemptor is not None:
                self.queue.requeue(preemptor, NOMINATED_NODE_CHANGED, now)

    def preemptor(self, uid: str) -> Pod | None:
        """Return the pod with that UID, or the one that stands for a pod group in the queue; None if it is gone."""
        return self.pods.get(uid) or self.queue.group_stand_in(uid)

    def wake_nominated(self, node_name: str, now: float) -> None:
        """Requeue the pods nominated to a node that has changed: they may fit it now, or no longer ever."""
        for pod in self.queue.nominator.pods_on(node_name):
            self.queue.requeue(pod, NOMINATED_NODE_CHANGED, now)

    def wake_for_freed_nominations(self, now: float, exclude: Collection[str] = ()) -> None:
        """Requeue the pods that freed nominations may help, except those with UIDs in `exclude`."""
        for freed in self.queue.nominator.take_freed():
            if self.queue.needs_events:
                self._wake_for(freed, now, {freed.before.uid, *exclude})

    def _wake_for(self, freed: FreedNomination, now: float, exclude: Collection[str]) -> None:
        """Requeue pods of the same or a lower priority: no others had to leave room for the nominated pod."""
        before = freed.before.on(freed.node_name)
        before.deleting = False  # nominated pods count until they are gone
        events = [pod_deleted(before)] if freed.after is None else pod_events(before, freed.after.on(freed.node_name))
        for event in events:
            self.queue.move_all(
                event, now, only=lambda q: q.pod.priority <= before.priority and q.pod.uid not in exclude
            )

    def is_responsible_for(self, pod: Pod) -> bool:
        """Return True if one of the profiles has the pod's scheduler name."""
        return pod.scheduler_name in self.profiles

    def queues_resize(self, pod: Pod) -> bool:
        """Return True if the pod is in the queue although it has a node, to make room there for its resize."""
        is_due = self.settings.preempts_for_resizes and pod.is_resize_deferred and not pod.deleting
        return is_due and self.is_responsible_for(pod)


def queue_profiles(profiles: Sequence[Profile], settings: Settings) -> dict[str, QueueProfile]:
    """Return the queue's part of each profile. Any event may help a pod that an extender or a reservation rejects."""
    extender = ((EXTENDER, ANYTHING),) if settings.extenders else ()
    has_queues = any(p.quota is not None for p in profiles)
    reservation = ((RESERVATION, ANYTHING),) if has_queues else ()
    orders_queues = any(p.quota and type(p.quota).next_queue is not QuotaPlugin.next_queue for p in profiles)
    return {
        p.name: QueueProfile(
            p.queue_sort,
            p.pre_enqueue,
            (*p.events_to_register, *extender, *reservation),
            {plugin.name: HintScope.of(plugin) for plugin in p.plugins},
            orders_queues,
            has_queues,
        )
        for p in profiles
    }
