"""NodeResourcesFit: place a pod only where its requests fit, and score by how full the node gets.

Extended resources that a DeviceClass provides are left to DynamicResources on nodes that have none allocatable. In the
score, the devices of the class count there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from pyscheduler import kernels
from pyscheduler.api import (
    MAX_NODE_SCORE,
    NODE,
    POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    Handle,
    Ints,
    NodeFields,
    NodeInfo,
    NodeObject,
    NodeTable,
    NodeToStatus,
    Placement,
    PlacementScorePlugin,
    Pod,
    PodSignatureGroup,
    PreFilterPlugin,
    PreScorePlugin,
    QueueingHint,
    Reads,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
)
from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, amounts, is_extended, is_scalar
from pyscheduler.intree import _scoring
from pyscheduler.intree._hints import occupied_node, queue_if
from pyscheduler.intree._label_selectors import key_rules
from pyscheduler.intree._problems import invalid, raise_for_problems
from pyscheduler.intree.resource_claims.device_classes import CLASS_PREFIX, DeviceClasses
from pyscheduler.intree.resource_claims.device_totals import (
    DEVICE_KINDS,
    DeviceTotals,
    is_device_resource,
    node_fields_of_devices,
)
from pyscheduler.intree.resource_claims.objects import DEVICE_CLASS

TOO_MANY_PODS = "Too many pods"

_MAX_RATED = MAX_INT64 // 100
"""Largest capacity that can be multiplied by 100 within int64."""
_MAX_BITS = 12

Utilization = tuple[int, int, int]
"""Use (at most the capacity), capacity (above 0) and weight of one resource of a node."""
Rating = Callable[[Iterable[Utilization]], int]
"""Function of the utilization of a node that returns its score, 0..100."""


@dataclass(frozen=True, slots=True)
class NodeResourcesFitArgs:
    """kubescheduler.config.k8s.io/v1 NodeResourcesFitArgs.

    `ignored_resources` and `ignored_resource_groups` (the part before the slash) name extended resources that Filter
    ignores, for example because an extender manages them.
    """

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: _scoring.ScoringStrategy | None = None

    def __post_init__(self) -> None:
        strategy = self.scoring_strategy or _scoring.ScoringStrategy(_scoring.LEAST_ALLOCATED)
        object.__setattr__(self, "scoring_strategy", strategy)
        raise_for_problems([*self._name_problems(), *_scoring.strategy_problems(strategy)])

    def _name_problems(self) -> Iterator[str]:
        for i, resource in enumerate(self.ignored_resources):
            for rule in key_rules(resource):
                yield invalid(f"ignoredResources[{i}]", resource, rule)
        for i, group in enumerate(self.ignored_resource_groups):
            rules = ["resource group name can't contain '/'"] if "/" in group else []
            for rule in (*rules, *key_rules(group)):
                yield invalid(f"ignoredResourceGroups[{i}]", group, rule)


class _Request(NamedTuple):
    """A request that Filter checks."""

    resource: str
    amount: int
    may_be_devices: bool = False
    """True if a DeviceClass provides the resource: a node that has none allocatable may have it as devices."""
    in_use: int = 0
    """Amount that the pod has on its node, before a resize; it counts there already."""


class _ScoredResource(NamedTuple):
    """A resource that counts in the score: the amount that the pod adds, and its weight."""

    resource: str
    amount: int
    weight: int
    with_defaults: bool
    may_be_devices: bool
    """True if a DeviceClass may provide the resource."""


_REQUESTS: StateKey[tuple[_Request, ...]] = StateKey("NodeResourcesFit filter")


class _PreScoreState(NamedTuple):
    """The scored resources, their names, and flags.

    `too_big` is True if an amount exceeds int64, `may_be_devices` if a DeviceClass may provide one of the resources.
    """

    each: tuple[_ScoredResource, ...]
    resources: tuple[str, ...]
    too_big: bool
    may_be_devices: bool

    @staticmethod
    def of(rated: Iterable[_ScoredResource]) -> _PreScoreState:
        each = tuple(rated)
        too_big, may_be_devices = any(r.amount > MAX_INT64 for r in each), any(r.may_be_devices for r in each)
        return _PreScoreState(each, tuple(r.resource for r in each), too_big, may_be_devices)


_PRE_SCORE_STATE: StateKey[_PreScoreState] = StateKey("NodeResourcesFit score")


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, PlacementScorePlugin, PreScorePlugin, ScorePlugin):
    """Reject nodes without room for the pod's requests; score nodes by their utilization with the pod.

    Of the placements of a pod group, those with the highest utilization of all their nodes are preferred.
    """

    name = "NodeResourcesFit"
    Args = NodeResourcesFitArgs
    reads = Reads.OWN_NODE_AND_PODS
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    pre_reads_nodes = False
    watches = DEVICE_KINDS

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._classes = handle.shared(DeviceClasses)
        self._devices = handle.shared(DeviceTotals)
        strategy = args.scoring_strategy or _scoring.ScoringStrategy(_scoring.LEAST_ALLOCATED)
        self._resources = tuple(r for r in strategy.resources if _is_counted(r.name))
        self._rate = _rating(strategy)
        self._strategy = _scoring.for_columns(strategy)
        self._capacities = _scoring.Capacities()
        self.has_score_key = any(is_device_resource(r.name) for r in self._resources)
        self._rate_placement = _rating(_scoring.ScoringStrategy(_scoring.MOST_ALLOCATED))

    # -- events --------------------------------------------------------------------------------------------------

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        requests = group.requests
        return (
            tuple(requests.real.items()),
            tuple(requests.scored.items()),
            tuple(self._classes.provided(requests.real)),
        )

    def node_fields_of(self, group: PodSignatureGroup) -> NodeFields:
        return NodeFields.ALLOCATABLE | node_fields_of_devices(group.requests.real)

    @property
    def signing_version(self) -> int:
        return self._classes.version

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN, self._resources_freed),
            ClusterEventWithHint(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, self._node_grew),
            ClusterEventWithHint(DEVICE_CLASS.kind, Action.ADD | Action.UPDATE, self._class_changed),
        )

    def _resources_freed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        old: Pod = event.old
        new: Pod | None = event.new
        if pod.node_name not in ("", old.node_name):
            return QueueingHint.SKIP  # the pod waits for a resize, and only its own node can make it
        if new is None:
            return queue_if(occupied_node(event))
        if new.uid == pod.uid:
            return QueueingHint.QUEUE
        shrunk = (
            old.requests.effective.get(r.resource, 0) > new.requests.effective.get(r.resource, 0)
            for r in self._requests_of(pod)
        )
        return queue_if(bool(new.node_name) and any(shrunk))

    def _node_grew(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        if pod.node_name not in ("", event.new.metadata.name):
            return QueueingHint.SKIP
        new = _allocatable(event.new)
        requests = [r for r in self._requests_of(pod) if not r.may_be_devices or new.get(r.resource)]
        if new.get(PODS, 0) < 1 or any(request.amount > new.get(request.resource, 0) for request in requests):
            return QueueingHint.SKIP
        if event.old is None:
            return QueueingHint.QUEUE
        old = _allocatable(event.old)
        return queue_if(any(new.get(r, 0) > old.get(r, 0) for r in (PODS, *(request.resource for request in requests))))

    def _class_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the class now provides a resource that the pod requests."""
        old, new = event.old, event.new
        name = new["metadata"]["name"]
        if old is None and CLASS_PREFIX + name in pod.requests.real:
            return QueueingHint.QUEUE
        before, now = (str(((each or {}).get("spec") or {}).get("extendedResourceName") or "") for each in (old, new))
        return queue_if(before != now and now in pod.requests.real)

    # -- filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        if len(pod.requests.real) > _MAX_BITS:
            cycle.charge_evaluations(len(pod.requests.real), len(nodes), "a request of resources")
        requests = self._requests_of(pod)
        cycle[_REQUESTS] = tuple(_growth(requests, pod)) if cycle.is_resize else requests

    def _requests_of(self, pod: Pod) -> tuple[_Request, ...]:
        requests = tuple(r for r in _resource_requests(pod) if r.amount > 0 and not self._is_ignored(r.resource))
        provided = self._classes.provided(pod.requests.real)
        return tuple(r._replace(may_be_devices=r.resource in provided) for r in requests) if provided else requests

    def _is_ignored(self, resource: str) -> bool:
        if not is_extended(resource):
            return False
        group = resource.split("/", 1)[0]
        return resource in self.args.ignored_resources or group in self.args.ignored_resource_groups

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        requests, others = cycle[_REQUESTS], len(node.pods) - cycle.is_resize
        if others < node.allowed_pods:
            allocatable, requested = node.allocatable, node.requested
            for resource, amount, may_be_devices, _ in requests:
                if amount > allocatable.get(resource, 0) - requested.get(resource, 0) and not (
                    may_be_devices and not allocatable.get(resource)
                ):
                    break
            else:
                return None
        return _insufficient_resources(requests, node, others)

    def required_room(self, cycle: Cycle, pod: Pod) -> Mapping[str, int] | None:
        requests = cycle[_REQUESTS]
        if cycle.is_resize or any(request.may_be_devices for request in requests):
            return None
        return {request.resource: request.amount for request in requests}

    def delegated_resources(self, requested: Iterable[str]) -> Collection[str]:
        return [resource for resource in requested if self._classes.of_resource(resource)]

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        requests = cycle[_REQUESTS]
        if len(requests) > _MAX_BITS - 2 or cycle.is_resize:
            return super().filter_all(cycle, pod, nodes)
        amounts = []
        for resource, amount, may_be_devices, _ in requests:
            if amount > MAX_INT64:
                return super().filter_all(cycle, pod, nodes)
            allocatable, requested = nodes.allocatable(resource), nodes.requested(resource)
            if may_be_devices:  # where the node has none, devices are DynamicResources' to check
                has_none = allocatable == 0
                allocatable, requested = np.where(has_none, amount, allocatable), np.where(has_none, 0, requested)
            amounts.append((amount, allocatable, requested))
        if kernels.has_room(nodes.pod_counts, nodes.allowed_pods, tuple(amounts)):
            return NodeToStatus(len(nodes))
        # One bit per reason; bit 0 means that evicting pods would not help.
        failed = np.empty(len(nodes), np.int64)
        kernels.missing_room(failed, nodes.pod_counts, nodes.allowed_pods, tuple(amounts))
        return _statuses(failed, (TOO_MANY_PODS, *(f"Insufficient {request.resource}" for request in requests)))

    # -- score ---------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        cycle[_PRE_SCORE_STATE] = _PreScoreState.of(self._scored_resources(pod.requests.scored))
        return None

    def _scored_resources(self, requested: Mapping[str, int]) -> Iterator[_ScoredResource]:
        for name, weight in ((r.name, r.weight) for r in self._resources):
            amount = requested.get(name, 0)
            if amount or not is_scalar(name):
                yield _ScoredResource(name, amount, weight, name in (CPU, MEMORY), is_device_resource(name))

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        allocatable, resources = node.allocatable, []
        for resource, amount, weight, with_defaults, may_be_devices in cycle[_PRE_SCORE_STATE].each:
            capacity = allocatable.get(resource, 0)
            if not capacity and may_be_devices:
                capacity, used = self._devices.on_node(resource, node)
                if capacity:
                    resources.append((min(used + amount, capacity), capacity, weight))
            elif capacity:
                used = amount + (node.non_zero_requested if with_defaults else node.requested).get(resource, 0)
                resources.append((used if used < capacity else capacity, capacity, weight))
        return self._rate(resources)

    def score_cache_key(self, cycle: Cycle) -> Hashable:
        return self._devices.version if cycle[_PRE_SCORE_STATE].may_be_devices else ()

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        each, resources, too_big, has_devices = cycle[_PRE_SCORE_STATE]
        if too_big or self._capacities.greatest(nodes, resources) > _MAX_RATED:
            return super().score_all(cycle, pod, nodes)
        columns = [
            (amount, weight, nodes.allocatable(name), (nodes.non_zero_requested if defaults else nodes.requested)(name))
            for name, amount, weight, defaults, _ in each
        ]
        if has_devices:
            columns = [
                (amount, weight, *self._devices.replaced(name, nodes, allocatable, used))
                for (name, *_), (amount, weight, allocatable, used) in zip(each, columns, strict=True)
            ]
        scores = np.empty(len(nodes), np.int64)
        kernels.allocation_scores(scores, tuple(columns), *self._strategy)
        return scores

    # -- pod groups ----------------------------------------------------------------------------------------------

    def score_placement(self, placement: Placement, nodes: NodeTable) -> int:
        """Return the score by MostAllocated, whatever the strategy for nodes (resource_allocation.go scorePlacement).

        Resources that none of the pods without a node before requests count for cpu, memory and storage only.
        """
        requested = {resource for pod, _ in placement.members for resource in pod.requests.scored}
        resources = []
        for resource, weight in ((r.name, r.weight) for r in self._resources):
            if is_scalar(resource) and resource not in requested:
                continue
            capacity = int(nodes.allocatable(resource).sum())
            used_of = nodes.non_zero_requested if resource in (CPU, MEMORY) else nodes.requested
            if capacity:
                resources.append((min(int(used_of(resource).sum()), capacity), capacity, weight))
        return self._rate_placement(resources)


def _is_counted(resource: str) -> bool:
    return resource in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(resource)


def _resource_requests(pod: Pod) -> tuple[_Request, ...]:
    """Return the pod's requests in the order of the reasons."""
    real = pod.requests.real
    first = [_Request(r, real[r]) for r in (CPU, MEMORY, EPHEMERAL_STORAGE) if r in real]
    return (*first, *(_Request(r, n) for r, n in real.items() if is_scalar(r)))


def _allocatable(node: NodeObject) -> Mapping[str, int]:
    return amounts(node.status.allocatable)


def _growth(requests: Iterable[_Request], pod: Pod) -> Iterator[_Request]:
    """Yield what a resized pod requests in addition to what counts for it on its node.

    Nothing of what it requests less, as the kubelet has not freed that yet: the node must not be overcommitted.
    """
    for request in requests:
        in_use = min(request.amount, pod.requests.effective.get(request.resource, 0))
        if request.amount > in_use or not is_scalar(request.resource):
            yield request._replace(amount=request.amount - in_use, in_use=in_use)


def _insufficient_resources(requests: tuple[_Request, ...], node: NodeInfo, others: int) -> Rejection:
    reasons = [TOO_MANY_PODS] if others >= node.allowed_pods else []
    resolvable = True
    for resource, amount, may_be_devices, in_use in requests:
        allocatable = node.allocatable.get(resource, 0)
        if may_be_devices and not allocatable:
            continue
        if amount > allocatable - node.requested.get(resource, 0):
            reasons.append(f"Insufficient {resource}")
            resolvable = resolvable and amount + in_use <= allocatable
    return _rejection(tuple(reasons), resolvable)


def _statuses(failed: Ints, reasons: tuple[str, ...]) -> NodeToStatus:
    """Return the statuses of nodes from `failed`, a bit set of reasons per node."""
    statuses = NodeToStatus(len(failed))
    bits = failed.item(0) if len(failed) else 0
    if bits and kernels.count_equal(failed, bits) == len(failed):  # frequent in a full cluster, and a third as long
        statuses.rejections.append(_rejection_of(bits, reasons))
        statuses.codes = np.empty(len(failed), np.int32)
        statuses.codes.fill(1)
        return statuses
    counts = np.bincount(failed)
    code_of = np.zeros(len(counts), np.int32)
    for bits in counts.nonzero()[0].tolist():
        if bits:
            statuses.rejections.append(_rejection_of(bits, reasons))
            code_of[bits] = len(statuses.rejections)
    statuses.codes = code_of.take(failed)
    return statuses


def _rejection_of(bits: int, reasons: tuple[str, ...]) -> Rejection:
    """Return the rejection with the reasons in a bit set."""
    node_reasons = tuple([reason for i, reason in enumerate(reasons, 1) if bits >> i & 1])
    return _rejection(node_reasons, resolvable=not bits & 1)


@lru_cache(maxsize=1024)
def _rejection(reasons: tuple[str, ...], resolvable: bool) -> Rejection:
    return Rejection(*reasons, resolvable=resolvable)


# -- Score of one node -----------------------------------------------------------------------------------------------


def _rating(strategy: _scoring.ScoringStrategy) -> Rating:
    """Return the strategy as a function of one node's utilization."""
    if strategy.requested_to_capacity_ratio is None:
        return _least_allocated if strategy.type == _scoring.LEAST_ALLOCATED else _most_allocated
    return partial(_by_shape, _scoring.ratings_of_shape(strategy.requested_to_capacity_ratio.shape))


def _least_allocated(resources: Iterable[Utilization]) -> int:
    total = weights = 0
    for used, capacity, weight in resources:
        total += (capacity - used) * MAX_NODE_SCORE // capacity * weight
        weights += weight
    return total // weights if weights else 0


def _most_allocated(resources: Iterable[Utilization]) -> int:
    total = weights = 0
    for used, capacity, weight in resources:
        total += used * MAX_NODE_SCORE // capacity * weight
        weights += weight
    return total // weights if weights else 0


def _by_shape(ratings: tuple[int, ...], resources: Iterable[Utilization]) -> int:
    total = weights = 0
    for used, capacity, weight in resources:
        rated = ratings[used * 100 // capacity]
        if rated:
            total += rated * weight
            weights += weight
    return _rounded(total, weights) if weights else 0


def _rounded(total: int, weights: int) -> int:
    """Divide and round half up, where the other strategies truncate."""
    return (2 * total + weights) // (2 * weights)
