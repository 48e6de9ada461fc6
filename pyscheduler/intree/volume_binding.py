"""VolumeBinding: place a pod where its volumes are accessible or can be provisioned, and bind them before the pod.

Binds claims of classes with `volumeBindingMode: WaitForFirstConsumer`; the PV controller binds all others earlier.
Score prefers nodes with much free storage, of the volumes that the claims would be bound to or of CSIStorageCapacities
(StorageCapacityScoring, KEP-1845). It is skipped where kube-scheduler returns 0 for every node: for pods without
unbound claims, and if neither volumes nor capacities are known for them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from pyscheduler.api import (
    NODE,
    POD,
    SKIP,
    SKIP_SIGNATURE_GROUP,
    Action,
    ApiWriter,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    Handle,
    NodeEquivalence,
    NodeFields,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Pod,
    PodSignatureGroup,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rejection,
    ReservePlugin,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
    StatusError,
    VolumeClaim,
)
from pyscheduler.intree._problems import invalid, raise_for_problems
from pyscheduler.intree._scoring import UtilizationShapePoint, shape_problems
from pyscheduler.intree.volumes import objects as kinds
from pyscheduler.intree.volumes.assume_cache import AssumeCache, VolumeAssumeCache
from pyscheduler.intree.volumes.binder import BindingChecker, PodBinding, assume, restore, write
from pyscheduler.intree.volumes.claim import ClaimRequests, DelayedClaim
from pyscheduler.intree.volumes.hints import OF_CLAIMS, VolumeHints
from pyscheduler.intree.volumes.objects import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimFields,
    Storage,
    binding_mode,
    claim_names,
    not_found,
    ownership_problem,
    read_claim,
    sign_volumes,
)
from pyscheduler.intree.volumes.provision import Provisioner
from pyscheduler.intree.volumes.search import PodVolumeSearch, rejection
from pyscheduler.intree.volumes.storage_use import StorageScorer

UNBOUND_IMMEDIATE = Rejection("pod has unbound immediate PersistentVolumeClaims", resolvable=False)
MAX_DOMAINS = 64
"""Number of topology domains above which VolumeBinding is evaluated by row. Local volumes have one domain per node."""
_GATED = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
_DEFAULT_SHAPE = (UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))


@dataclass(frozen=True, slots=True)
class VolumeBindingArgs:
    """kubescheduler.config.k8s.io/v1 VolumeBindingArgs: seconds that PreBind waits for the volumes to be bound.

    `shape` are points of the function from the utilization of storage to the score; it falls by default.
    """

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", self.shape or _DEFAULT_SHAPE)
        raise_for_problems(_timeout_problems(self.bind_timeout_seconds) + shape_problems(self.shape or (), "shape"))


@dataclass(frozen=True, slots=True)
class VolumeBindingArgsWithoutShape:
    """VolumeBindingArgs while the feature gate StorageCapacityScoring is off: `shape` must be absent."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None

    def __post_init__(self) -> None:
        problems = _timeout_problems(self.bind_timeout_seconds)
        if self.shape is not None:
            points = ",".join(f'{{"Utilization":{p.utilization},"Score":{p.score}}}' for p in self.shape)
            problems.append(f"shape: Invalid value: [{points}]: {_GATED}")
        raise_for_problems(problems)


def _timeout_problems(seconds: int) -> list[str]:
    negative = "invalid BindTimeoutSeconds, should not be a negative value"
    return [invalid("bindTimeoutSeconds", seconds, negative)] if seconds < 0 else []


_SEARCH: StateKey[PodVolumeSearch] = StateKey("VolumeBinding search")
_BINDING: StateKey[PodBinding] = StateKey("VolumeBinding binding")


class VolumeBinding(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin):
    """Reject nodes from which a bound volume is not accessible; bind delayed claims once a node is selected."""

    name = "VolumeBinding"
    checks_resizes = False
    skip_includes_reserve = True
    Args: ClassVar[type] = VolumeBindingArgs
    reads = Reads.OWN_NODE  # all else is in the cache key
    reads_in_dry_run = Reads.OWN_NODE
    score_reads = Reads.EVERYTHING  # other claims of the same size may get other volumes
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    node_fields = NodeFields.LABELS
    pre_reads_nodes = False
    watches = (
        kinds.VOLUME,
        kinds.CLAIM,
        kinds.STORAGE_CLASS,
        kinds.CSI_NODE,
        kinds.CSI_DRIVER,
        kinds.CSI_STORAGE_CAPACITY,
    )

    def __init__(self, args: VolumeBindingArgs | VolumeBindingArgsWithoutShape, handle: Handle) -> None:
        super().__init__(args, handle)
        self._scorer = StorageScorer(args.shape or _DEFAULT_SHAPE)
        self._timeout = args.bind_timeout_seconds
        self._storage = Storage(handle)
        self._hints = VolumeHints(self._storage)
        self._volumes = VolumeAssumeCache(handle)
        self._claims = AssumeCache(kinds.CLAIM, handle)
        self._requests = ClaimRequests()
        self._provisioner = Provisioner(handle, self._storage)

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return sign_volumes(group)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        added, updated, deleted = Action.ADD, Action.UPDATE, Action.DELETE
        return (
            ClusterEventWithHint(kinds.STORAGE_CLASS.kind, added | updated, self._hints.class_changed),
            ClusterEventWithHint(kinds.CLAIM.kind, added | updated, self._hints.claim_changed, OF_CLAIMS),
            ClusterEventWithHint(kinds.VOLUME.kind, added | updated | deleted, self._hints.volume_changed),
            ClusterEventWithHint(NODE, added | Action.UPDATE_NODE_LABEL),
            ClusterEventWithHint(kinds.CSI_NODE.kind, added | updated | deleted, self._hints.csi_node_changed),
            ClusterEventWithHint(kinds.CSI_DRIVER.kind, updated | deleted, self._hints.csi_driver_changed),
            ClusterEventWithHint(kinds.CSI_STORAGE_CAPACITY.kind, added | updated, self._hints.capacity_changed),
            ClusterEventWithHint(POD, deleted, self._hints.assumption_ended),
        )

    # -- filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | Skip | None:
        claims = pod.signature.volume_claims
        if not claims:
            return SKIP_SIGNATURE_GROUP
        namespace, names = pod.namespace, claim_names(pod)
        for wanted, name in zip(claims, names, strict=True):
            problem = self._problem(pod, wanted, name)
            if problem:
                return Rejection(problem, resolvable=False)
        bound: list[str] = []
        delayed: list[DelayedClaim] = []
        immediate = False
        for name in names:
            found = self._claims.get(namespace, name)
            if found is None:
                continue
            fields = read_claim(found)
            if fields.is_bound:
                bound.append(fields.volume_name)
                continue
            claim = self._delayed_claim(fields)
            if claim is None:
                immediate = True
            else:
                delayed.append(claim)
        if immediate:
            return UNBOUND_IMMEDIATE
        search = cycle[_SEARCH] = PodVolumeSearch(bound, delayed, self._volumes, self._provisioner, self._storage)
        search.charge(cycle)
        return SKIP if search.accepts_every_node else None

    def _problem(self, pod: Pod, wanted: VolumeClaim, name: str) -> str:
        """Return the reason why the pod cannot use the claim, "" if it can."""
        claim = self._storage.claim(pod.namespace, name)
        if claim is None and wanted.ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        if claim is None:
            return not_found("persistentvolumeclaim", name)
        fields = read_claim(claim)
        if fields.is_lost:
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{fields.volume_name}"'
        if fields.is_deleting:
            return f'persistentvolumeclaim "{name}" is being deleted'
        return ownership_problem(pod, claim) if wanted.ephemeral else ""

    def _delayed_claim(self, claim: ClaimFields) -> DelayedClaim | None:
        """Return the claim if it is bound with the pod; one with a volumeName waits for the PV controller instead."""
        class_name = claim.storage_class
        storage_class = self._storage.storage_class(class_name) if class_name else None
        if storage_class is None:
            return None
        mode = binding_mode(storage_class)
        if mode is None:
            raise StatusError(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        if mode != WAIT_FOR_FIRST_CONSUMER or claim.volume_name:
            return None
        return self._requests.delayed_claim(claim)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        conflicts = cycle[_SEARCH].at(node).conflicts
        return rejection(conflicts) if conflicts else None

    def filter_cache_key(self, cycle: Cycle) -> Hashable | None:
        return cycle[_SEARCH].cache_key()

    def filter_equivalence(self, cycle: Cycle) -> NodeEquivalence | None:
        keys = cycle[_SEARCH].topologies()
        if not keys:
            return None
        table = self.handle.nodes.table()
        if prod(table.topology(key).size for key in keys) > MAX_DOMAINS:
            return None
        return NodeEquivalence(tuple(sorted(keys)))

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses = NodeToStatus(len(nodes))
        conflicts = cycle[_SEARCH].conflicts(nodes)
        for distinct in np.flatnonzero(np.bincount(conflicts)).tolist():
            if distinct:
                statuses.reject(conflicts == distinct, rejection(distinct))
        return statuses

    # -- score ---------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        if not pod.signature.volume_claims:
            return SKIP_SIGNATURE_GROUP
        if _SEARCH not in cycle or cycle[_SEARCH].all_bound or not cycle[_SEARCH].has_storage_use:
            return SKIP
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return self._scorer.score(cycle[_SEARCH].storage_use(node))

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return self._scorer.scores(cycle[_SEARCH].storage_uses(nodes))

    # -- binding -------------------------------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        if _SEARCH in cycle and not cycle[_SEARCH].all_bound:
            cycle[_BINDING] = assume(cycle[_SEARCH].at(node), node, self._volumes, self._claims)
        return None

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        if _BINDING in cycle:
            restore(cycle[_BINDING], self._volumes, self._claims)

    def pre_bind_pre_flight(self, cycle: Cycle, pod: Pod, node_name: str) -> Skip | None:
        return None if _BINDING in cycle else SKIP

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        if _BINDING not in cycle:
            return None
        binding = cycle[_BINDING]
        await write(binding, api)
        checker = BindingChecker(self._storage, self._volumes)
        for _ in range(self._timeout):
            await api.sleep(1.0)
            node_exists = bool(self.handle.nodes.table().named(frozenset({node_name})).any())
            try:
                if checker.is_done(binding, pod, node_exists):
                    return None
            except StatusError as problem:
                raise StatusError(f"binding volumes: {problem}") from None
        raise StatusError("binding volumes: context deadline exceeded")


class VolumeBindingWithoutScore(VolumeBinding):
    """VolumeBinding while the feature gate StorageCapacityScoring is off: no node is preferred."""

    Args = VolumeBindingArgsWithoutShape
    node_fields = NodeFields.LABELS

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return SKIP_SIGNATURE_GROUP
