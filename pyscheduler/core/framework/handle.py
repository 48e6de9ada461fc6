"""The handle that plugins receive: one collaborator for each concern, all in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, TypeVar

import msgspec

from pyscheduler.api.handle import DryRuns, Handle
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.framework.evictions import Evictions
from pyscheduler.core.framework.object_store import ObjectStore
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.pod_indexer import PodIndexer
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.framework.requests import PluginApiCalls, PluginNominator, PluginRequests
from pyscheduler.core.framework.waiting_pods import WaitingPodMap
from pyscheduler.core.preemption.dry_run import DryRunner
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state.cluster import ClusterState

T = TypeVar("T")


class CoreHandle(msgspec.Struct, frozen=True, eq=False):
    """Implementation of the public `Handle` protocol, shared by all plugins."""

    nodes: ClusterState
    pods: PodIndexer
    objects: ObjectStore
    waiting_pods: WaitingPodMap
    nominator: PluginNominator
    evictions: Evictions
    dry_runs: DryRuns
    activated: PluginRequests
    profiles: Mapping[str, Profile]
    api_dispatcher: PluginApiCalls
    pending_pod: Callable[[str], QueuedPod | None]
    """Return the pending pod of a UID, or None."""
    shared_by_factory: dict[Callable[[Handle], Any], Any] = msgspec.field(default_factory=dict)

    def shared(self, factory: Callable[[Handle], T]) -> T:
        if factory not in self.shared_by_factory:
            self.shared_by_factory[factory] = factory(self)
        found: T = self.shared_by_factory[factory]
        return found

    def delegated_resources(self, requested: Iterable[str]) -> Set[str]:
        found = set[str]()
        for plugin in {id(each): each for profile in self.profiles.values() for each in profile.delegating}.values():
            found.update(call_guarded(plugin.name, "Filter", plugin.delegated_resources, requested))
        return found

    def activate(self, pods: Iterable[Pod]) -> None:
        self.activated.add(pods)

    def gating_plugin(self, pod: Pod) -> str:
        queued = self.pending_pod(pod.uid)
        return "" if queued is None else queued.gating_plugin


def build_handle(
    state: ClusterState,
    nominator: Nominator,
    profiles: Mapping[str, Profile],
    pending_pod: Callable[[str], QueuedPod | None],
) -> CoreHandle:
    """Return the handle of a cluster. `profiles` are those in use by name: a live view, which is empty at first.

    `pending_pod` returns the pod with a UID from the queue; it is not called before that exists.
    """
    return CoreHandle(
        nodes=state,
        pods=PodIndexer(state, profiles),
        objects=ObjectStore(profiles),
        waiting_pods=WaitingPodMap(),
        nominator=PluginNominator(nominator),
        evictions=Evictions(),
        dry_runs=DryRunner(profiles, state, nominator),
        activated=PluginRequests(),
        profiles=profiles,
        api_dispatcher=PluginApiCalls(),
        pending_pod=pending_pod,
    )


def empty_handle() -> CoreHandle:
    """Return the handle of an empty cluster, for plugins that are built but not run."""
    return build_handle(ClusterState(), Nominator(), {}, pending_pod=lambda _: None)
