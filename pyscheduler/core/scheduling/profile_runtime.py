"""A profile with everything that its attempts share: cluster state, nominated pods, search order, caches, points."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument, Point
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCaches
from pyscheduler.core.scheduling.competing_pods import CompetingPodsCache
from pyscheduler.core.scheduling.fit_errors import FitErrorCache
from pyscheduler.core.scheduling.node_order import KubeSchedulerOrder, NextStartNode
from pyscheduler.core.state.cluster import ClusterState


class Points(NamedTuple):
    """Instrumented extension points of one profile that run synchronously."""

    pre_filter: Point
    filter: Point
    post_filter: Point
    pre_score: Point
    score: Point
    reserve: Point
    unreserve: Point
    permit: Point
    pre_bind_pre_flight: Point

    @staticmethod
    def of(profile: str, instrument: Instrument) -> Points:
        """Return the points of a profile."""
        names = ("PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Unreserve", "Permit")
        return Points(*(instrument.point(name, profile) for name in (*names, "PreBindPreFlight")))

    def fail(self) -> None:
        """End the point that a plugin's exception has interrupted."""
        for point in self:
            point.fail()


class ProfileRuntime(msgspec.Struct, frozen=True, eq=False):
    """A profile at run time (kube-scheduler's frameworkImpl)."""

    profile: Profile
    state: ClusterState
    nominator: Nominator
    order: KubeSchedulerOrder | None
    """None: every node is evaluated and scored, and ties are broken pseudo-randomly."""
    caches: EquivalenceCaches
    points: Points
    fit_errors: FitErrorCache
    competing_pods: CompetingPodsCache

    @staticmethod
    def of(
        profile: Profile,
        state: ClusterState,
        nominator: Nominator,
        instrument: Instrument,
        start: NextStartNode | None = None,
        has_extender_scores: bool = False,
    ) -> ProfileRuntime:
        """Return the runtime of a profile with empty caches.

        `start` is shared by all profiles. `has_extender_scores`: extenders rank nodes besides the Score plugins, so the
        search must not stop at the first feasible node.
        """
        percentage, is_scored = profile.percentage_of_nodes_to_score, has_extender_scores or bool(profile.score)
        order = None
        if percentage is not None:
            order = KubeSchedulerOrder(state, start or NextStartNode(), percentage, is_scored)
        caches, points = EquivalenceCaches(profile, state), Points.of(profile.name, instrument)
        fit_errors = FitErrorCache(profile, state, nominator, caches)
        competing_pods = CompetingPodsCache(state, nominator)
        return ProfileRuntime(profile, state, nominator, order, caches, points, fit_errors, competing_pods)

    def reset(self, pod: Pod) -> None:
        """Drop the pod's equivalence cache, which an exception may leave half updated, and end the current point."""
        self.caches.drop(pod)
        self.points.fail()
