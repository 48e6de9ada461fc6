"""DynamicResources: allocate the devices that a pod's ResourceClaims ask for (KEP-4381), on the node that it gets.

PreFilter reads the claims, Filter allocates on each node in memory, Reserve keeps the allocation of the selected node
as in flight, and PreBind writes it. Requests for extended resources that a DeviceClass provides become a claim too
(KEP-5004). Matches kube-scheduler's dynamicresources plugin with the feature gates that are on by default.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Final
from uuid import UUID

import numpy as np

from pyscheduler.api import (
    NODE,
    SKIP,
    TARGET_POD,
    UNSIGNABLE,
    Action,
    ApiCall,
    ApiWriter,
    ClusterEventWithHint,
    Cycle,
    DefaultNormalizeScore,
    Diagnosis,
    FilterPlugin,
    Handle,
    NodeInfo,
    NodeTable,
    Pod,
    PodSignatureGroup,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Reads,
    Rejection,
    ReservePlugin,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
    StatusError,
)
from pyscheduler.api.devices import AllocationResult, ResourceClaim
from pyscheduler.api.resources import is_extended
from pyscheduler.intree._problems import invalid, raise_for_problems
from pyscheduler.intree.devices.allocator import DEFAULT_STEPS, Allocator
from pyscheduler.intree.devices.cel_selectors import CelSelectors
from pyscheduler.intree.devices.errors import AllocationError, AllocationTimeoutError, NodeAllocationError
from pyscheduler.intree.devices.score import allocation_score
from pyscheduler.intree.resource_claims import claim_writer
from pyscheduler.intree.resource_claims.binding_conditions import (
    DeviceBindingFailedError,
    has_binding_conditions,
    is_ready,
    progress,
)
from pyscheduler.intree.resource_claims.claim_cache import ClaimCache
from pyscheduler.intree.resource_claims.claim_writer import ClaimWriter
from pyscheduler.intree.resource_claims.device_classes import CLASS_PREFIX, DeviceClasses
from pyscheduler.intree.resource_claims.device_state import DeviceState
from pyscheduler.intree.resource_claims.extended_resources import (
    RequestsOnNode,
    is_in_memory,
    new_claim,
    requests_on_node,
    with_requests,
)
from pyscheduler.intree.resource_claims.hints import ClaimHints
from pyscheduler.intree.resource_claims.objects import (
    CLAIM,
    DEVICE_CLASS,
    SLICE,
    TAINT_RULES,
    AllocatedNodes,
    CachedClaim,
)
from pyscheduler.intree.resource_claims.pod_claims import ClaimUnusableError, check_requests, claims_of_pod

NOTHING_TO_DEALLOCATE = Rejection()
"""kube-scheduler gives no reason for that since 1.37."""
_POLL_SECONDS: Final = 5.0
_STEPS_PER_NODE: Final = 300
"""Devices that an attempt may try for each node, in addition to what one node may take."""
_NOT_AVAILABLE = Rejection("resourceclaim not available on the node", resolvable=False)
_NOT_ALLOCATABLE = Rejection("cannot allocate all claims", resolvable=False)

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


@dataclass(slots=True, eq=False)
class _NodeAllocation:
    """What a pod's claims get on one node."""

    results: list[AllocationResult]
    """Results of the claims that are not allocated yet, in their order."""
    extended: ResourceClaim | None
    """Claim for extended resources with its requests on this node."""
    on_node: RequestsOnNode | None


@dataclass(slots=True, eq=False)
class _PodState:
    """Claims of one pod in one attempt."""

    claims: list[CachedClaim] = field(default_factory=list)
    extended: int | None = None
    """Place of the claim for extended resources, which is the last one."""
    allocated_nodes: list[AllocatedNodes] = field(default_factory=list)
    """Nodes on which each claim can be used, as far as it is allocated."""
    allocator: Allocator | None = None
    """None if all claims are allocated."""
    by_node: dict[str, _NodeAllocation] = field(default_factory=dict)
    unavailable: set[int] = field(default_factory=set)
    """Claims that are allocated and cannot be used on a node that was tried."""
    reserved: dict[int, AllocationResult] = field(default_factory=dict)
    """Allocations on the selected node that are not written yet, by claim."""
    in_flight: list[str] = field(default_factory=list)
    """UIDs under which these are in flight."""

    def to_allocate(self) -> Iterator[int]:
        """Yield the claims that are not allocated."""
        return (i for i, claim in enumerate(self.claims) if claim.allocation is None)

    @property
    def extended_claim(self) -> CachedClaim | None:
        """Claim for extended resources."""
        return None if self.extended is None else self.claims[self.extended]

    @property
    def has_user_claims(self) -> bool:
        """True if the pod names claims."""
        return len(self.claims) > (self.extended is not None)


_STATE: StateKey[_PodState] = StateKey("DynamicResources")
_NO_STATE = _PodState()
"""State of all pods without claims."""


class DynamicResources(
    PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, PostFilterPlugin, ScorePlugin, ReservePlugin, PreBindPlugin
):
    """Place a pod where all devices of its claims can be allocated."""

    name = "DynamicResources"
    Args = DynamicResourcesArgs
    reads = Reads.OWN_NODE  # of pods that can be signed; the results of others are not cached
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    hints_read_identity = True
    normalizer = DefaultNormalizeScore()
    watches = (CLAIM, SLICE, DEVICE_CLASS, *TAINT_RULES)
    is_repeatable = True

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._claims = ClaimCache(handle)
        self._devices = DeviceState(handle)
        self._classes = DeviceClasses(handle)
        self._hints = ClaimHints(self._claims)
        self._selectors = CelSelectors()
        self._timed_out: set[str] = set()
        """UIDs of claims whose binding conditions were not met in time."""

    # -- events --------------------------------------------------------------------------------------------------

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        """Return UNSIGNABLE for pods with claims: each has claims of its own, and every claim changes the results."""
        if group.spec.resource_claims or self._needs_devices(group):
            return UNSIGNABLE
        return None

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
            ClusterEventWithHint(CLAIM.kind, changes | Action.DELETE, self._hints.claim_changed),
            ClusterEventWithHint(TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._hints.pod_updated),
            ClusterEventWithHint(DEVICE_CLASS.kind, changes),
            ClusterEventWithHint(SLICE.kind, changes),
            ClusterEventWithHint(TAINT_RULES[0].kind, changes | Action.DELETE),
        )

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """Gate a pod until its claims exist."""
        if not pod.spec.resource_claims:
            return None
        try:
            for _ in claims_of_pod(pod, self._claims):
                pass
        except ClaimUnusableError as reason:
            return Rejection(str(reason), resolvable=False)
        return None

    # -- filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | Skip | None:
        cycle[_STATE] = _NO_STATE
        if not pod.spec.resource_claims and not self._needs_devices(pod.signature.template):
            return SKIP
        state, uuids = _PodState(), _Uuids(cycle)
        cycle[_STATE] = state
        try:
            claims = list(claims_of_pod(pod, self._claims))
            if self._needs_devices(pod.signature.template):
                state.extended = len(claims)
                claims.append(self._claims.extended_resource_claim(pod) or new_claim(pod, uuids.next()))
            if not claims:
                return SKIP
            for i, claim in enumerate(claims):
                self._check(claim, is_extended=i == state.extended)
        except ClaimUnusableError as reason:
            return Rejection(str(reason), resolvable=False)
        except ValueError as problem:
            raise StatusError(str(problem)) from None
        state.claims = claims
        state.allocated_nodes = [AllocatedNodes.of(claim.allocation) for claim in claims]
        if any(True for _ in state.to_allocate()):
            self._selectors.start()
            inventory, classes = self._devices.inventory, self._classes.by_name
            steps = DEFAULT_STEPS + _STEPS_PER_NODE * len(nodes)
            state.allocator = Allocator(
                inventory, classes, self._claims.allocated, self._selectors, uuids.next, steps=steps
            )
        return None

    def _check(self, claim: CachedClaim, is_extended: bool) -> None:
        """Raise ClaimUnusableError if the claim cannot be allocated now."""
        if claim.allocation is not None:
            return
        if self._claims.in_flight(claim.uid) is not None:
            raise ClaimUnusableError(f"resource claim {claim.name} is in the process of being allocated")
        if not is_extended:
            check_requests(claim, self._classes.by_name)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        state = cycle[_STATE]
        on_node = self._requests_on(state, pod, node)
        if isinstance(on_node, Rejection):
            return on_node
        if on_node is None and not state.has_user_claims:
            return None
        unavailable = [i for i in range(len(state.claims)) if self._is_unavailable(state, i, node)]
        extended: ResourceClaim | None = None
        allocated: list[AllocationResult] | None = None
        if state.allocator is not None:
            if on_node is not None and state.extended_claim is not None:
                extended = with_requests(state.extended_claim, on_node.requests)
            claims = [
                extended if i == state.extended and extended is not None else state.claims[i].api
                for i in state.to_allocate()
            ]
            found = self._allocate(state.allocator, claims, node)
            if isinstance(found, Rejection):
                return found
            allocated = found
        if unavailable:
            state.unavailable.update(unavailable)
            return _NOT_AVAILABLE
        if allocated is not None:
            state.by_node[node.name] = _NodeAllocation(allocated, extended, on_node)
        return None

    def _allocate(
        self, allocator: Allocator, claims: Sequence[ResourceClaim], node: NodeInfo
    ) -> list[AllocationResult] | Rejection:
        """Return the allocation on a node, or why there is none. StatusError ends the attempt."""
        try:
            allocated = allocator.allocate(node.name, node.labels, claims)
        except NodeAllocationError as reason:
            return Rejection(str(reason), resolvable=False)
        except AllocationTimeoutError:
            raise StatusError(f"node {node.name}: timed out trying to allocate devices") from None
        except AllocationError as problem:
            raise StatusError(str(problem)) from None
        return _NOT_ALLOCATABLE if allocated is None else allocated

    def _requests_on(self, state: _PodState, pod: Pod, node: NodeInfo) -> RequestsOnNode | Rejection | None:
        """Return the requests for extended resources that the node has as devices; None if it has none."""
        claim = state.extended_claim
        if claim is None:
            return None
        if claim.api.spec.devices.requests:
            return Rejection("cannot schedule extended resource claim", resolvable=False)  # of an earlier attempt
        resources = []
        for resource, amount in pod.requests.real.items():
            if not amount or not (is_extended(resource) or resource.startswith(CLASS_PREFIX)):
                continue
            if not node.allocatable.get(resource) and self._classes.of_resource(resource):
                resources.append(resource)
            elif resource not in node.allocatable:
                return Rejection("cannot fit resource", resolvable=False)
        if not resources and not state.has_user_claims:
            return None
        return requests_on_node(pod, resources, self._classes.of_resource)

    def _is_unavailable(self, state: _PodState, index: int, node: NodeInfo) -> bool:
        """Return True if the claim is allocated and its devices cannot be used on the node, or not at all."""
        claim = state.claims[index]
        if not state.allocated_nodes[index].include(node.name, node.labels):
            return True
        if claim.allocation is None:
            return False
        try:
            return not is_ready(claim) and claim.uid in self._timed_out
        except DeviceBindingFailedError:
            return True

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Rejection:
        """Deallocate a claim that prevented the pod from running on some node, so that it can get other devices."""
        if _STATE not in cycle:
            # An earlier plugin ended PreFilter. Kube-scheduler then misses its cycle state and fails with this text.
            raise StatusError("not found")
        state = cycle[_STATE]
        if not state.claims:
            return NOTHING_TO_DEALLOCATE
        extended = state.extended_claim
        indexes = sorted(state.unavailable)
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

    # -- score ---------------------------------------------------------------------------------------------------

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        """Return how early the chosen alternatives of the claims' requests come."""
        state = cycle[_STATE]
        return allocation_score(self._allocations(state, node.name)) if state.claims else 0

    def _allocations(self, state: _PodState, node_name: str) -> Iterator[tuple[ResourceClaim, AllocationResult]]:
        """Yield each claim with its allocation, or the one that it would get on the node."""
        on_node = state.by_node.get(node_name)
        for claim in state.claims:
            if claim.allocation is not None:
                yield claim.api, claim.allocation
        if on_node is not None:
            for i, result in zip(state.to_allocate(), on_node.results, strict=False):
                yield state.claims[i].api, result

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return super().score_all(cycle, pod, nodes) if cycle[_STATE].claims else np.zeros(len(nodes), np.int64)

    # -- reserve -------------------------------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        if _STATE not in cycle or cycle[_STATE].allocator is None:
            return None
        state = cycle[_STATE]
        on_node = state.by_node.get(node.name)
        if on_node is None:
            if all(i == state.extended for i in state.to_allocate()):
                return None  # a device plugin has the extended resources
            raise StatusError("claim allocation not found for node")
        for i, result in zip(state.to_allocate(), on_node.results, strict=True):
            state.reserved[i] = result
            uid = state.claims[i].uid
            self._claims.add_in_flight(uid, result)
            state.in_flight.append(uid)
        return None

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
                state.claims[i] = await self._bind_claim(state, i, node_name, writer)
        if has_binding_conditions(state.claims):
            await self._wait_for_conditions(state, api)
        for uid in state.in_flight:
            self._claims.remove_in_flight(uid, is_written=True)
        state.in_flight.clear()
        return None

    async def _bind_claim(self, state: _PodState, index: int, node_name: str, writer: ClaimWriter) -> CachedClaim:
        """Write the reservation of a claim, and its allocation if it is a new one; return the written claim."""
        claim, allocation = state.claims[index], state.reserved.get(index)
        if index != state.extended:
            return self._claims.assume(await writer.reserve(claim, allocation))
        on_node = state.by_node.get(node_name)
        if allocation is None or on_node is None or on_node.extended is None or on_node.on_node is None:
            return claim  # a device plugin has the extended resources
        if is_in_memory(claim):
            claim = state.claims[index] = self._claims.assume(await writer.create(on_node.extended, claim.source))
        claim = state.claims[index] = self._claims.assume(await writer.reserve(claim, allocation))
        await writer.show_extended_resource_claim(claim, on_node.on_node.mappings)
        return claim

    async def _wait_for_conditions(self, state: _PodState, api: ApiWriter) -> None:
        """Wait until the drivers have set all binding conditions. StatusError if one fails or the time is over."""
        left = self.args.binding_timeout
        while True:
            state.claims = [self._claims.get(*claim.key) or claim for claim in state.claims]
            try:
                if all(is_ready(claim) for claim in state.claims if claim.allocation is not None):
                    self._timed_out.difference_update(claim.uid for claim in state.claims)
                    return
            except DeviceBindingFailedError as failed:
                raise StatusError(str(failed)) from None
            if left <= 0:
                break
            await api.sleep(min(_POLL_SECONDS, left))
            left -= _POLL_SECONDS
        waiting = [each for claim in state.claims for each in progress(claim) if each.pending]
        self._timed_out.update(claim.uid for claim in state.claims if any(True for _ in progress(claim)))
        raise StatusError(f"device binding timeout: {'; '.join(map(str, waiting))}")


class _Uuids:
    """Random UUIDs that depend on the attempt only, so that a replayed attempt gives the same."""

    def __init__(self, cycle: Cycle) -> None:
        self._rng = cycle.rng()

    def next(self) -> str:
        """Return the next UUID."""
        return str(UUID(int=self._rng.getrandbits(128), version=4))


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:g}ms" if 0 < abs(seconds) < 1 else f"{seconds:g}s"
