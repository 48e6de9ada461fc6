"""Fit errors shared by equal pods: after one of them fits no node, the others fail without filtering.

Thousands of pods wake and fail together: an event that helps a few pods of a template wakes all of them, and so does
one of which a queueing hint cannot exclude that it helps. A fit error holds for all pods of a signature, and for the
signature group if no plugin reads the labels, claims or node names in which its signatures differ. It is valid until a
node, a pod on a node, a nominated pod or a watched object changes.
"""

from __future__ import annotations

from msgspec import Struct

from pyscheduler.api.pod import Pod, PodSignature, PodSignatureGroup
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Point
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.equivalence_caches import EquivalenceCaches
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.core.state.cluster import ClusterState

MAX_FIT_ERRORS = 4096
"""Number of fit errors at which all are dropped: they keep the signatures of deleted pods in memory."""


class FitError(Struct, frozen=True):
    """Failure of an attempt in which no node fitted, and what the attempt has counted."""

    failure: Failure
    points: tuple[tuple[Point, str], ...]
    """Extension points that ran, with their statuses."""
    preemptions: int
    """Number of preemption plugins that ran."""


class FitErrorCache:
    """Fit errors of one profile in the current state of the cluster."""

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
        self._version = (-1, -1, -1)
        self.entries: dict[PodSignature | PodSignatureGroup, FitError] = {}
        """Fit errors by signature or group, also outdated ones."""

    def get(self, pod: Pod) -> FitError | None:
        """Return the fit error that an attempt of the pod would end with; None if it has to be made."""
        if pod.is_large or self._version != self._current_version():
            return None
        signature = pod.signature
        found = self.entries.get(signature) or self.entries.get(signature.template)
        return None if found is None or self._nominator.nominated_node(pod) else found

    def is_shareable(self, pod: Pod) -> bool:
        """Return True if the filter results of the pod's current attempt hold for every pod of its signature."""
        if not self._is_enabled or pod.is_large or self._nominator.nominated_node(pod):
            return False
        return self._caches.get(pod).holds_for_signature

    def store(self, pod: Pod, fit_error: FitError) -> None:
        """Store the fit error of an attempt that has just ended, with shareable results."""
        version = self._current_version()
        if self._version != version or len(self.entries) >= MAX_FIT_ERRORS:
            self._version = version
            self.entries.clear()
        self.entries[self._key(pod)] = fit_error

    def _key(self, pod: Pod) -> PodSignature | PodSignatureGroup:
        """Return the signature of the pod, or its group if no plugin reads what differs in the group."""
        signature = pod.signature
        names_claims_or_nodes = signature.spec is not signature.template.spec
        readers = self._readers_of_claims_and_nodes if names_claims_or_nodes else self._readers
        depends = not readers.isdisjoint(self._post_filters) or self._caches.get(pod).depends_on(readers)
        return signature if depends else signature.template

    def _current_version(self) -> tuple[int, int, int]:
        return self._state.node_log.mark, self._state.usage_log.mark, self._nominator.version
