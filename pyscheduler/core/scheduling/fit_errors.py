"""Fit errors shared by equal pods: after one of them fits no node, the others fail without filtering.

Thousands of pods wake and fail together: an event that helps a few pods of a template wakes all of them, and so does
one of which a queueing hint cannot exclude that it helps. A fit error holds for all pods of a signature, and for the
signature group if no plugin reads the labels, claims or node names in which its signatures differ. It is valid until a
node, a pod on a node, a nominated pod or a watched object changes.
"""

from __future__ import annotations

from msgspec import Struct

from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Status
from pyscheduler.api.pod import Pod, PodSignature, PodSignatureGroup
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Point
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCaches
from pyscheduler.core.scheduling.extension_points import PostFilterResult
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.core.state.cluster import ClusterState

MAX_FIT_ERRORS = 4096
"""Number of fit errors at which all are dropped: they keep the signatures of deleted pods in memory."""


Key = PodSignature | PodSignatureGroup
_Version = tuple[int, int, int]
"""Versions of the node objects, of the pods on nodes, and of the nominated pods."""


class FitError(Struct, frozen=True):
    """Failure of an attempt in which no node fitted, and what the attempt has counted."""

    failure: Failure
    points: tuple[tuple[Point, str], ...]
    """Extension points that ran, with their statuses."""
    preemptions: int
    """Number of preemption plugins that ran."""
    reasons: Reasons


class Reasons(Struct, frozen=True):
    """Reasons of a fit error: equal ones make equal events and conditions."""

    total_nodes: int
    tally: dict[Status, int]
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    result: PostFilterResult

    @staticmethod
    def of(diagnosis: Diagnosis, result: PostFilterResult) -> Reasons:
        """Return the reasons of a pod that no node fits although no PreFilter plugin rejected it."""
        return Reasons(
            diagnosis.total_nodes,
            dict(diagnosis.tally),
            frozenset(diagnosis.unschedulable_plugins),
            frozenset(diagnosis.pending_plugins),
            result,
        )


class FitErrorCache:
    """Fit errors of one profile in the current state of the cluster, and earlier ones.

    Most changes of the cluster do not change a fit error, but it must be evaluated again.
    """

    def __init__(self, profile: Profile, state: ClusterState, nominator: Nominator, caches: EquivalenceCaches) -> None:
        self._post_filters = frozenset(plugin.name for plugin in profile.post_filter)
        self._readers = profile.label_readers
        self._readers_of_claims_and_nodes = profile.label_readers | profile.claim_readers | profile.named_node_readers
        self._is_enabled = (
            profile.percentage_of_nodes_to_score is None
            and not profile.eviction_permits
            and all(plugin.is_repeatable for plugin in profile.post_filter)
        )
        self._state = state
        self._nominator = nominator
        self._caches = caches
        self._version: _Version = (-1, -1, -1)
        """Version of the newest fit error."""
        self.entries: dict[Key, tuple[_Version, FitError]] = {}
        """Fit errors with the version for which each holds, also outdated ones."""

    def get(self, pod: Pod) -> FitError | None:
        """Return the fit error that an attempt of the pod would end with; None if it has to be made."""
        fit_errors, version = self.entries, self._current_version()
        if version != self._version or pod.is_large or self._nominator.nominated_node(pod):
            return None
        signature = pod.signature
        for key in (signature.template, signature):
            found = fit_errors.get(key)
            if found is not None and found[0] == version:
                return found[1]
        return None

    def key_of(self, pod: Pod) -> Key | None:
        """Return the pods for which the filter results of the pod's current attempt hold; None if for no others.

        These are the pods of its signature, or of its group if no plugin reads what differs in the group.
        """
        if not self._is_enabled or pod.is_large or self._nominator.nominated_node(pod):
            return None
        cache, signature = self._caches.get(pod), pod.signature
        if cache is None or not cache.holds_for_signature:
            return None
        names_claims_or_nodes = signature.spec is not signature.template.spec
        readers = self._readers_of_claims_and_nodes if names_claims_or_nodes else self._readers
        depends = not readers.isdisjoint(self._post_filters) or cache.depends_on(readers)
        return signature if depends else signature.template

    def last(self, key: Key, reasons: Reasons) -> FitError | None:
        """Return the last fit error of the pods if it had the same reasons."""
        found = self.entries.get(key)
        return found[1] if found is not None and found[1].reasons == reasons else None

    def store(self, key: Key, fit_error: FitError) -> None:
        """Store the fit error of an attempt that has just ended."""
        self._version = self._current_version()
        if len(self.entries) >= MAX_FIT_ERRORS:
            self.entries.clear()
        self.entries[key] = self._version, fit_error

    def _current_version(self) -> _Version:
        return self._state.node_log.mark, self._state.usage_log.mark, self._nominator.version
