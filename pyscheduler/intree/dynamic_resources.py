"""DynamicResources: allocate the devices that a pod's ResourceClaims ask for (KEP-4381), on the node that it gets.

PreFilter reads the claims, Filter allocates on each node in memory, Reserve keeps the allocation of the selected node
as in flight, and PreBind writes it. Requests for extended resources that a DeviceClass provides become a claim too
(KEP-5004). Matches kube-scheduler's dynamicresources plugin with the feature gates that are on by default.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Annotated, ClassVar, Final

import numpy as np

from pyscheduler.api import (
    NODE,
    SKIP,
    SKIP_SIGNATURE_GROUP,
    TARGET_POD,
    Action,
    ApiCall,
    ApiWriter,
    ClusterEventWithHint,
    Cycle,
    DefaultNormalizeScore,
    Diagnosis,
    FilterPlugin,
    Handle,
    NodeFields,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Pod,
    PodGroup,
    PodGroupPostFilterPlugin,
    PodSignatureGroup,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Reads,
    Rejection,
    ReservePlugin,
    ResourceKind,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
    StatusError,
)
from pyscheduler.api.devices import AllocationResult
from pyscheduler.intree._problems import invalid, raise_for_problems
from pyscheduler.intree.devices.allocator import Allocator
from pyscheduler.intree.devices.cel_selectors import CelSelectors
from pyscheduler.intree.resource_claims import claim_writer, metrics
from pyscheduler.intree.resource_claims.attempt import PodClaims
from pyscheduler.intree.resource_claims.binding_conditions import (
    DeviceBindingFailedError,
    DeviceBindingTimeoutError,
    has_binding_conditions,
    has_timed_out,
    is_ready,
)
from pyscheduler.intree.resource_claims.claim_cache import ClaimCache
from pyscheduler.intree.resource_claims.claim_writer import ClaimWriter
from pyscheduler.intree.resource_claims.claims_on_nodes import ClaimsOnNodes
from pyscheduler.intree.resource_claims.device_classes import DeviceClasses
from pyscheduler.intree.resource_claims.device_state import devices_of
from pyscheduler.intree.resource_claims.extended_resources import (
    is_in_memory,
    new_claim,
)
from pyscheduler.intree.resource_claims.hints import OF_CLAIMS, ClaimHints
from pyscheduler.intree.resource_claims.node_filter import NodeFilter
from pyscheduler.intree.resource_claims.objects import (
    CLAIM,
    DEVICE_CLASS,
    SLICE,
    TAINT_RULES,
    AllocatedNodes,
    CachedClaim,
)
from pyscheduler.intree.resource_claims.pod_claims import (
    ClaimUnusableError,
    check_requests,
    claims_of_pod,
    pod_group_of,
)
from pyscheduler.intree.resource_claims.random_uuids import random_uuids

NOTHING_TO_DEALLOCATE = Rejection()
"""kube-scheduler gives no reason for that since 1.37."""
_POLL_SECONDS: Final = 5.0
_STEPS: Final = 500_000
"""Steps of the search for devices that an attempt may take on all nodes."""
_STEPS_PER_NODE: Final = 300
"""Steps that are allowed in addition for each node."""

Seconds = Annotated[float, "duration"]


@dataclass(frozen=True, slots=True)
class DynamicResourcesArgs:
    """kubescheduler.config.k8s.io/v1 DynamicResourcesArgs: timeouts of one node's allocation and of a binding."""

    filter_timeout: Seconds = 10.0
    binding_timeout: Seconds = 600.0

    def __post_init__(self) -> None:
        problems = []
        if self.filter_timeout < 0:
            problems.append(invalid("filterTimeout", _shown(self.filter_timeout), "must be zero or positive"))
        if self.binding_timeout < 1:
            problems.append(invalid("bindingTimeout", _shown(self.binding_timeout), "must be at least 1 second"))
        raise_for_problems(problems)


_STATE: StateKey[PodClaims] = StateKey("DynamicResources")
_NO_STATE = PodClaims()
"""State of all pods without claims."""


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PodGroupPostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
):
    """Place a pod where all devices of its claims can be allocated."""

    name = "DynamicResources"
    checks_resizes = False
    pre_enqueue_field = "resource_claims"
    skip_includes_reserve = True
    Args = DynamicResourcesArgs
    reads = Reads.OWN_NODE  # all else is in the cache key
    reads_in_dry_run = Reads.OWN_NODE
    score_reads = Reads.ALL_NODES
    pre_reads_nodes = False
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    hints_read_identity = True
    normalizer = DefaultNormalizeScore()
    watches = (CLAIM, SLICE, DEVICE_CLASS, *TAINT_RULES)
    makes_room = False
    is_repeatable = True
    fractional_ranges: ClassVar[bool] = True
    """True if the ranges of capacities may have fractions."""
    taint_rules: ClassVar[tuple[ResourceKind, ...]] = TAINT_RULES
    """Kinds of DeviceTaintRules that are read."""

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._claims = handle.shared(ClaimCache)
        self._devices = handle.shared(devices_of(self.taint_rules, fractional=self.fractional_ranges))
        self._classes = handle.shared(DeviceClasses)
        self._hints = ClaimHints(self._claims)
        self._selectors = CelSelectors()
        self._on_nodes = ClaimsOnNodes()
        self._timed_out: set[str] = set()
        """UIDs of claims whose binding conditions were not met in time."""
        self._nodes = NodeFilter(self._classes, self._on_nodes, self._timed_out)

    # -- events --------------------------------------------------------------------------------------------------

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return bool(group.spec.resource_claims), tuple(self._classes.provided(group.requests.real))

    def node_fields_of(self, group: PodSignatureGroup) -> NodeFields:
        needs_devices = group.spec.resource_claims or self._needs_devices(group)
        return NodeFields.LABELS | NodeFields.ALLOCATABLE if needs_devices else NodeFields.NONE

    @property
    def signing_version(self) -> int:
        return self._classes.version

    def _needs_devices(self, group: PodSignatureGroup) -> bool:
        return bool(self._classes.provided(group.requests.real))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changes = Action.ADD | Action.UPDATE
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        return (
            ClusterEventWithHint(NODE, nodes),
            ClusterEventWithHint(CLAIM.kind, changes | Action.DELETE, self._hints.claim_changed, OF_CLAIMS),
            ClusterEventWithHint(TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._hints.pod_updated),
            ClusterEventWithHint(DEVICE_CLASS.kind, changes),
            ClusterEventWithHint(SLICE.kind, changes),
            *(ClusterEventWithHint(kind.kind, changes | Action.DELETE) for kind in self.taint_rules[:1]),
        )

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """Gate a pod until its claims exist."""
        unusable = self._first_unusable(pod) if pod.spec.resource_claims else None
        return None if unusable is None else Rejection(str(unusable), resolvable=False)

    def gate_object(self, pod: Pod) -> tuple[str, str, str] | None:
        """Return the claim that the pod lacks: thousands of pods may be there before their claims are."""
        unusable = self._first_unusable(pod)
        return None if unusable is None else (CLAIM.kind, pod.namespace, unusable.claim)

    def _first_unusable(self, pod: Pod) -> ClaimUnusableError | None:
        """Return the reason why the first claim that does not exist cannot be used, None if all exist."""
        try:
            for _ in claims_of_pod(pod, self._claims):
                pass
        except ClaimUnusableError as reason:
            return reason
        return None

    # -- filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | Skip | None:
        cycle[_STATE] = _NO_STATE
        if not pod.spec.resource_claims and not self._needs_devices(pod.signature.template):
            return SKIP_SIGNATURE_GROUP
        state, uuids = PodClaims(), random_uuids(cycle)
        cycle[_STATE] = state
        try:
            claims = list(claims_of_pod(pod, self._claims))
            if self._needs_devices(pod.signature.template):
                state.extended = len(claims)
                claims.append(self._claims.extended_resource_claim(pod) or new_claim(pod, next(uuids)))
            if not claims:
                return SKIP
            for i, claim in enumerate(claims):
                claims[i] = self._usable(state, i, claim, pod)
        except ClaimUnusableError as reason:
            return Rejection(str(reason), resolvable=False)
        except ValueError as problem:
            raise StatusError(str(problem)) from None
        state.claims = claims
        state.allocated_nodes = [AllocatedNodes.of(claim.allocation) for claim in claims]
        state.key = self._nodes.key(state, pod)
        if any(True for _ in state.to_allocate()):
            self._selectors.start()
            inventory, devices = self._devices.inventory, self._claims.devices
            state.version = self._on_nodes.refresh(inventory, devices, self._classes.version, nodes)
            state.allocator = self._allocator(uuids, _STEPS + _STEPS_PER_NODE * len(nodes))
        return None

    def _allocator(self, uuids: Iterator[str], steps: int = _STEPS) -> Allocator:
        inventory, allocated, classes = self._devices.inventory, self._claims.devices.allocated, self._classes.by_name
        return Allocator(inventory, classes, allocated, self._selectors, partial(next, uuids), steps=steps)

    def _usable(self, state: PodClaims, index: int, claim: CachedClaim, pod: Pod) -> CachedClaim:
        """Return the claim, with the allocation of another pod of its group. ClaimUnusableError if it has to wait."""
        if claim.allocation is not None:
            return claim
        allocation = self._claims.in_flight(claim.uid)
        if allocation is not None and self._claims.in_flight_group(claim.uid) == pod_group_of(pod) is not None:
            state.shared[index] = allocation
            return claim.with_allocation(allocation)
        if allocation is not None:
            raise ClaimUnusableError(f"resource claim {claim.name} is in the process of being allocated")
        if index != state.extended:
            check_requests(claim, self._classes.by_name)
        return claim

    def filter_cache_key(self, cycle: Cycle) -> Hashable | None:
        return cycle[_STATE].key, cycle[_STATE].version

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return self._nodes.filter(cycle[_STATE], pod, node)

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        return self._nodes.filter_all(cycle[_STATE], pod, nodes)

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Rejection:
        """Deallocate a claim that prevented the pod from running on some node, so that it can get other devices."""
        if _STATE not in cycle:
            # An earlier plugin ended PreFilter. Kube-scheduler then misses its cycle state and fails with this text.
            raise StatusError("not found")
        state = cycle[_STATE]
        if not state.claims:
            return NOTHING_TO_DEALLOCATE
        extended = state.extended_claim
        indexes = self._nodes.unavailable(state, diagnosis, self.handle.nodes.table(), self.name)
        cycle.rng().shuffle(indexes)
        for index in indexes:
            claim = state.claims[index]
            if claim is extended:
                continue
            if not claim.reserved_for or (len(claim.reserved_for) == 1 and claim.is_reserved_for(pod)):
                self._call_later(partial(claim_writer.deallocate, claim))
                return Rejection("deallocation of ResourceClaim completed")
        if extended is not None and not is_in_memory(extended):
            self._call_later(partial(claim_writer.delete, extended))
            return Rejection("deletion of ResourceClaim completed")
        return NOTHING_TO_DEALLOCATE

    def pod_group_post_filter(self, group: PodGroup, pods: Sequence[Pod], message: str) -> Rejection:
        """Deallocate for each pod of the group a claim that is unavailable on some node, as PostFilter for one pod.

        The reason is always the same, as in kube-scheduler; groups with other messages have it only if it is true.
        """
        if group.has_kubernetes_messages and group.topology:
            return NOTHING_TO_DEALLOCATE  # kube-scheduler does not support it
        table, seen = self.handle.nodes.table(), set[str]()
        calls = [call for pod in pods if (call := self._deallocation_for(pod, table, seen)) is not None]
        for call in calls:
            self._call_later(call)
        if calls or group.has_kubernetes_messages:
            return Rejection("deallocation and deletion of ResourceClaims completed")
        return NOTHING_TO_DEALLOCATE

    def _deallocation_for(self, pod: Pod, nodes: NodeTable, seen: set[str]) -> ApiCall | None:
        """Return the call that frees a claim of the pod. `seen` has the UIDs of claims with a call, and gets its."""
        extended = self._claims.extended_resource_claim(pod) if self._needs_devices(pod.signature.template) else None
        if not pod.spec.resource_claims and extended is None:
            return None
        try:
            claims = list(claims_of_pod(pod, self._claims))
        except ClaimUnusableError:
            return None
        for claim in claims:
            is_free = not claim.reserved_for or (len(claim.reserved_for) == 1 and claim.is_reserved_for(pod))
            if claim.allocation is None or not is_free or claim.uid in seen:
                continue
            if claim.uid in self._timed_out or not AllocatedNodes.of(claim.allocation).mask(nodes).all():
                seen.add(claim.uid)
                return partial(claim_writer.deallocate, claim)
        return None if extended is None else partial(claim_writer.delete, extended)

    # -- score ---------------------------------------------------------------------------------------------------

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        """Return how early the chosen alternatives of the claims' requests come."""
        if _STATE not in cycle or not cycle[_STATE].claims:
            return 0
        state = cycle[_STATE]
        if not state.has_alternatives:
            return state.allocated_score
        found = self._nodes.allocation_on(state, state.allocator, pod, node)
        return state.allocated_score + (0 if found is None else found.score)

    def score_cache_key(self, cycle: Cycle) -> Hashable | None:
        if _STATE not in cycle:
            return ()
        state = cycle[_STATE]
        return (state.key, state.version) if state.has_alternatives else state.allocated_score

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        if _STATE not in cycle or not cycle[_STATE].claims:
            return np.zeros(len(nodes), np.int64)
        return self._nodes.score_all(cycle[_STATE], pod, nodes)

    # -- reserve -------------------------------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        if _STATE not in cycle:
            return None
        state = cycle[_STATE]
        for i, shared in state.shared.items():
            self._add_in_flight(state, i, shared, pod)
        if state.allocator is None:
            return None
        self._selectors.start()
        # As in Filter, for this node only. The IDs of shares do not depend on how many other nodes were evaluated.
        allocator = self._allocator(islice(random_uuids(cycle), 1, None))
        on_node = state.on_node = self._nodes.allocation_on(state, allocator, pod, node)
        if on_node is None:
            if all(i == state.extended for i in state.to_allocate()):
                return None  # a device plugin has the extended resources
            raise StatusError("claim allocation not found for node")
        for i, result in zip(state.to_allocate(), on_node.results, strict=True):
            self._add_in_flight(state, i, result, pod)
        return None

    def _add_in_flight(self, state: PodClaims, index: int, allocation: AllocationResult, pod: Pod) -> None:
        uid = state.claims[index].uid
        state.reserved[index] = allocation
        self._claims.add_in_flight(uid, allocation, pod_group_of(pod))
        state.in_flight.append(uid)

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        if _STATE not in cycle:
            return
        state = cycle[_STATE]
        for uid in state.in_flight:
            self._claims.remove_in_flight(uid)
        state.in_flight.clear()
        for i, claim in enumerate(state.claims):
            if i == state.extended:
                if not is_in_memory(claim):
                    self._call_later(partial(claim_writer.delete, claim))
            elif claim.allocation is not None and claim.is_reserved_for(pod):
                self._call_later(partial(claim_writer.release, claim, pod.uid))

    def _call_later(self, call: ApiCall) -> None:
        self.handle.api_dispatcher.add(self.name, call)

    # -- binding -------------------------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, cycle: Cycle, pod: Pod, node_name: str) -> Skip | None:
        return None if _STATE in cycle and cycle[_STATE].claims else SKIP

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        state = cycle[_STATE]
        writer = ClaimWriter(api, pod, api.timestamp)
        for i, claim in enumerate(state.claims):
            if not claim.is_reserved_for(pod):
                state.claims[i] = await self._bind_claim(state, i, writer)
        self._timed_out.difference_update(state.claims[i].uid for i in state.reserved)  # of an earlier allocation
        if has_binding_conditions(state.claims):
            note = f"waiting for binding conditions for device on node {node_name}"
            api.record(pod, "BindingConditionsPending", "Scheduling", note)
            await self._wait_for_conditions(state, api, cycle.profile)
        for uid in state.in_flight:
            self._claims.remove_in_flight(uid, is_written=True)
        state.in_flight.clear()
        return None

    async def _bind_claim(self, state: PodClaims, index: int, writer: ClaimWriter) -> CachedClaim:
        """Write the reservation of a claim, and its allocation if it is a new one; return the written claim."""
        claim, allocation = state.claims[index], state.reserved.get(index)
        if index != state.extended:
            is_shared = pod_group_of(writer.pod) is not None
            return self._claims.assume(await writer.reserve(claim, allocation, is_shared=is_shared))
        on_node = state.on_node
        if allocation is None or on_node is None or on_node.extended is None or on_node.on_node is None:
            return claim  # a device plugin has the extended resources
        if is_in_memory(claim):
            claim = state.claims[index] = self._claims.assume(await writer.create(on_node.extended, claim.source))
        claim = state.claims[index] = self._claims.assume(await writer.reserve(claim, allocation))
        await writer.show_extended_resource_claim(claim, on_node.on_node.mappings)
        return claim

    async def _wait_for_conditions(self, state: PodClaims, api: ApiWriter, profile: str) -> None:
        """Wait until the drivers have set all binding conditions. StatusError if one fails or the time is over.

        The time counts from the allocation, also if another pod or an earlier process made it, and from now.
        """
        left, status = self.args.binding_timeout, metrics.ERROR
        try:
            while not self._are_ready(state, api):
                if left <= 0:
                    self._timed_out.update(claim.uid for claim in state.claims if has_binding_conditions((claim,)))
                    raise DeviceBindingTimeoutError("context deadline exceeded")
                await api.sleep(min(_POLL_SECONDS, left))
                left -= _POLL_SECONDS
            status = metrics.SUCCESS
        except DeviceBindingFailedError as failed:
            status = metrics.FAILURE
            raise StatusError(str(failed)) from None
        except DeviceBindingTimeoutError as timeout:
            status = metrics.TIMEOUT
            raise StatusError(f"device binding timeout: {timeout}") from None
        finally:
            seconds = self.args.binding_timeout - max(left, 0)
            metrics.count_wait(api, profile, state.claims, status, seconds)

    def _are_ready(self, state: PodClaims, api: ApiWriter) -> bool:
        """Return True if all binding conditions are set. DeviceBindingTimeoutError if an allocation is too old."""
        state.claims = [self._current(claim) for claim in state.claims]
        waiting = next((each for each in state.claims if not is_in_memory(each) and not is_ready(each)), None)
        if waiting is None:
            self._timed_out.difference_update(claim.uid for claim in state.claims)
        elif has_timed_out(waiting, self.args.binding_timeout, api.timestamp()):
            self._timed_out.add(waiting.uid)
            raise DeviceBindingTimeoutError(f"claim={waiting.key[1]}")
        return waiting is None

    def _current(self, claim: CachedClaim) -> CachedClaim:
        """Return the claim as it is now. StatusError if it is deleted. One that was not created stays as it is."""
        current = claim if is_in_memory(claim) else self._claims.get(*claim.key)
        if current is None:
            raise StatusError(f'could not find ResourceClaim "{claim.name}"')
        return current


class DynamicResourcesWithIntegerRanges(DynamicResources):
    """The plugin while the feature gate DRAFractionalCapacityRange is off."""

    fractional_ranges = False


class DynamicResourcesWithoutTaintRules(DynamicResources):
    """DynamicResources without the feature gate DRADeviceTaintRules: only taints in slices count."""

    watches = (CLAIM, SLICE, DEVICE_CLASS)
    taint_rules = ()


class DynamicResourcesOf136(DynamicResourcesWithIntegerRanges, DynamicResourcesWithoutTaintRules):
    """DynamicResources without both gates, which are off in Kubernetes 1.36."""


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:g}ms" if 0 < abs(seconds) < 1 else f"{seconds:g}s"
