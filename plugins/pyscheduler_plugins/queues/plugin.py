"""Queues: divide the cluster among queues by weight, quota and guarantee, and reclaim what is above a share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import (
    ClusterEvent,
    ClusterEventWithHint,
    EvictionRank,
    EvictionUnit,
    Handle,
    NodeTable,
    Pod,
    PodGroup,
    PodGroupKey,
    QuotaPlugin,
    ResourceKind,
)
from pyscheduler.api.nodes import Ints
from pyscheduler.api.resources import PODS, Amounts
from pyscheduler.api.steps import Steps, exhaust
from pyscheduler.api.usable_nodes import usable_nodes
from pyscheduler_plugins.pod_groups.pod_annotations import QUEUES
from pyscheduler_plugins.queues.args import QueuesArgs, RunTimes
from pyscheduler_plugins.queues.bundles import Bundle
from pyscheduler_plugins.queues.devices import (
    CLAIM,
    DEVICE_CLASS,
    DeviceNames,
    RequestedDevices,
    claim_names,
    extended_resource,
)
from pyscheduler_plugins.queues.drf import dominant_share, next_queue
from pyscheduler_plugins.queues.hierarchy import Hierarchy, read_hierarchy
from pyscheduler_plugins.queues.limits import LimitedUse, accounts_of, read_limits
from pyscheduler_plugins.queues.order import JobOrder, QueueOrder, UsageOverTime
from pyscheduler_plugins.queues.quantities import format_amount
from pyscheduler_plugins.queues.queue import ELASTIC_QUOTA, QUEUE, ROOT, Declaration, DequeueStrategy, declaration
from pyscheduler_plugins.queues.queue_delays import QueueDelays
from pyscheduler_plugins.queues.quota_excess import excess, surplus_of
from pyscheduler_plugins.queues.reclaim import (
    BUNDLES_PER_STEP,
    find_victims,
    is_within_guarantee,
    is_within_share,
    may_reclaim,
    may_reclaim_from,
)
from pyscheduler_plugins.queues.tree import JobUsage, QueueTree
from pyscheduler_plugins.queues.turns import Turns

DEFAULT_QUEUE = "default"
"""Queue of pods that name none. It exists without an object."""


def _names_other_quota(group: PodGroup) -> bool:
    """Return True if the group names the ElasticQuota of another namespace: names of Queues have no slash."""
    owner, slash, _ = group.queue.partition("/")
    return bool(slash) and owner != group.key.namespace


class Queues(QuotaPlugin):
    """Volcano's queues and the ElasticQuotas of namespaces.

    A queue allocates at most its quota, and at most the share that it deserves while others request theirs. What others
    have allocated above their shares is reclaimed for a group that fits into the share of its queue.
    """

    name = "Queues"
    Args = QueuesArgs
    watches = (QUEUE, ELASTIC_QUOTA, CLAIM, DEVICE_CLASS)

    def __init__(self, args: QueuesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._tree = QueueTree()
        self._limited = LimitedUse(read_limits(args.limits), self._path)
        self._delays = QueueDelays(self._tree, args.delays)
        self._turns = Turns(self._tree, self._delays)
        self._order = QueueOrder(args.queue_order)
        self._usage = UsageOverTime(self._tree, args.usage_half_life_seconds)
        self.orders_groups = args.job_order == JobOrder.DRF
        self.learns_run_times = args.run_times == RunTimes.LEARNT
        self.tracks_time = self._order is QueueOrder.USAGE
        self._hierarchy = Hierarchy({}, {})
        self._pods_have_shares = self._pods_have_quotas = False
        self._versions = dict.fromkeys((QUEUE, ELASTIC_QUOTA), -1)
        self._devices, self._claims = DeviceNames(handle.objects), RequestedDevices(handle.objects)
        self._with_devices: dict[PodGroupKey, tuple[PodGroup, Amounts, Amounts]] = {}
        """Allocated and pending amounts of the groups with devices."""
        self._declared: dict[tuple[ResourceKind, str, str], Declaration | None] = {}
        """Declarations of the objects at the last read, by kind, namespace and name."""
        self._resources: set[str] = set()
        self._nodes: tuple[int, int] = (-1, -1)
        self._has_ended_claims = False
        self._usable_amounts: dict[str, int] = {}
        """Sums of the allocatable amounts of all usable nodes."""
        self._unusable_rows: NDArray[np.intp] = np.zeros(0, np.intp)
        """Nodes that are cordoned or not ready."""
        self._queues: dict[PodGroupKey, str] = {}
        self._started: set[PodGroupKey] = set()
        """Groups that have pods with a node."""

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return ()  # the groups that a queue refuses are retried when usage or queues change

    # -- usage ---------------------------------------------------------------------------------------------------

    def queue_of(self, pod: Pod) -> str:
        return next((pod.annotations[name] for name in QUEUES if pod.annotations.get(name)), "")

    def queue_of_group(self, group: PodGroup) -> str:
        """Return the queue of the namespace's ElasticQuota, or the one that the group names, or the default one.

        Groups of other namespaces that name an ElasticQuota are in a queue that does not exist: they count toward none.
        """
        if quota := self._hierarchy.quotas.get(group.key.namespace):
            return quota
        return f"{group.key.namespace}/{group.queue}" if _names_other_quota(group) else group.queue or DEFAULT_QUEUE

    def accounts_of(self, members: Collection[Pod]) -> Sequence[str]:
        return accounts_of(members) if self._limited else ()

    def set_placed(self, group: PodGroup, count: int) -> None:
        if count:
            self._started.add(group.key)
        else:
            self._started.discard(group.key)

    def set_usage(self, group: PodGroup, allocated: Amounts, pending: Amounts) -> None:
        self._resources.update(allocated, pending)
        self._read_queues()
        before, queue = self._queues.get(group.key), self.queue_of_group(group)
        self._queues[group.key] = queue
        self._set_amounts(group, allocated, pending)
        if self._limited:
            is_started, used = group.key in self._started, dict(self._devices.with_all_names(allocated))
            self._limited.set_job(group.key, queue, group.accounts, used, is_started=is_started)
        if self._order is QueueOrder.USAGE:
            for each in {queue, before or queue}:
                self._usage.record(each)

    def _set_amounts(self, group: PodGroup, allocated: Amounts, pending: Amounts) -> None:
        """Set what counts toward shares and quotas."""
        key, queue = group.key, self.queue_of_group(group)
        (with_shares, others), (waiting, more_others) = self._split(allocated), self._split(pending)
        self._tree.set_usage(key, queue, JobUsage(with_shares, waiting))
        self._tree.without_shares.set(key, queue, others)
        if not {PODS}.issuperset((*others, *more_others)):
            self._with_devices[key] = group, allocated, pending
        else:
            self._with_devices.pop(key, None)

    def _split(self, amounts: Amounts) -> tuple[Amounts, Amounts]:
        """Return the amounts that have shares, and those that count toward quotas only.

        Pods have shares only if a queue deserves some: otherwise they would change the order of the queues.
        """
        with_shares, others = self._devices.split(amounts)
        if not self._pods_have_shares:
            count = with_shares.pop(PODS, 0)
            if count and self._pods_have_quotas:
                others[PODS] = count
        return with_shares, others

    def set_terminating(self, group: PodGroup, amounts: Amounts) -> None:
        self._read_queues()
        queue, amounts = self.queue_of_group(group), dict(self._devices.with_all_names(amounts))
        self._tree.terminating.set(group.key, queue, amounts)
        if self._limited:
            self._limited.set_job(group.key, queue, group.accounts, amounts, is_started=False)

    def remove_usage(self, key: PodGroupKey) -> None:
        self._tree.remove_job(key)
        self._tree.without_shares.set(key, "", {})
        self._with_devices.pop(key, None)
        self._limited.remove_job(key)
        self._started.discard(key)
        queue = self._queues.pop(key, None)
        self._turns.remove(key)
        if self._order is QueueOrder.USAGE and queue is not None:
            self._usage.record(queue)

    def claims_of(self, pod: Pod) -> Mapping[str, Amounts]:
        return {f"{pod.namespace}/{name}": self._claims.devices(pod.namespace, name) for name in claim_names(pod)}

    def changed_claims(self, event: ClusterEvent) -> Mapping[str, Amounts]:
        if event.resource != CLAIM.kind or event.new is None:
            return {}
        metadata = event.new["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        return {f"{namespace}/{name}": self._claims.devices(namespace, name)}

    def changes_queues(self, event: ClusterEvent) -> bool:
        if event.resource == CLAIM.kind:
            return False
        if event.resource == DEVICE_CLASS.kind:
            return extended_resource(event.old) != extended_resource(event.new)
        return not event.old or not event.new or declaration(event.old) != declaration(event.new)

    def set_time(self, now: float) -> None:
        if self._turns:
            self._read_queues()
            self._turns.advance(now)
        self.tracks_time = self._order is QueueOrder.USAGE or bool(self._turns)
        self._usage.now = now

    def add_past_usage(self, group: PodGroup, request: Amounts, seconds: float) -> None:
        if self._order is QueueOrder.USAGE:
            self._usage.add(self.queue_of_group(group), self._with_shares(request), seconds)

    def _read_queues(self) -> None:
        """Bring the tree up to date with the objects and the nodes."""
        if self._has_changed_queues():
            objects = self.handle.objects
            queues = {name: queue for (_, name), queue in objects[QUEUE].items()}
            queues.setdefault(DEFAULT_QUEUE, {"metadata": {"name": DEFAULT_QUEUE}, "spec": {}})
            self._hierarchy = read_hierarchy(queues.values(), objects[ELASTIC_QUOTA].values())
            self._read_pod_amounts()
            self._tree.set_queues(self._hierarchy)
            self._limited.set_queues()
            self._delays.set_queues()
        nodes = self.handle.nodes.table()
        if (nodes.version, len(self._resources)) != self._nodes:
            self._nodes = nodes.version, len(self._resources)
            usable = usable_nodes(nodes)
            self._unusable_rows = (~usable).nonzero()[0]
            self._usable_amounts = {r: int(nodes.allocatable(r)[usable].sum()) for r in self._resources}
            self._set_pods(self._usable_amounts, nodes.allowed_pods[usable])
            self._tree.set_capacity(self._capacity(nodes))
            with_pods = {PODS} & self._usable_amounts.keys()
            if self._devices.set_on_nodes({r for r in self._resources if nodes.allocatable(r).any()} | with_pods):
                for group, allocated, pending in list(self._with_devices.values()):
                    self._set_amounts(group, allocated, pending)
        elif len(self._unusable_rows):
            self._tree.set_capacity(self._capacity(nodes))

    def _capacity(self, nodes: NodeTable) -> Amounts:
        """Return the amounts that queues share: of a cordoned node, or one that is not ready, what its pods request."""
        rows, usable = self._unusable_rows, self._usable_amounts
        if not len(rows):
            return usable
        used = {r: nodes.pod_counts if r == PODS else nodes.requested(r) for r in usable}
        return {r: amount + int(used[r].take(rows).sum()) for r, amount in usable.items()}

    def _read_pod_amounts(self) -> None:
        """Read from the queues what pods count toward."""
        had_shares, queues = self._pods_have_shares, self._hierarchy.queues.values()
        self._pods_have_shares = any(PODS in queue.deserved or PODS in queue.guarantee for queue in queues)
        self._pods_have_quotas = any(PODS in queue.capability for queue in queues)
        if self._pods_have_shares != had_shares:
            self._nodes = (-1, -1)  # so that the capacity is set anew

    def _set_pods(self, amounts: Amounts, counts: Ints) -> None:
        """Set the sum of the numbers of pods of all nodes in amounts, if pods have shares."""
        if self._pods_have_shares:
            amounts[PODS] = int(counts.sum())
        else:
            amounts.pop(PODS, None)

    def _has_changed_queues(self) -> bool:
        """Return True if the objects declare something else than when they were read last.

        Statuses are written all the time, and with 1,000 queues it takes 0.1 s to build the tree.
        """
        objects, found = self.handle.objects, False
        for kind, version in self._versions.items():
            if (newest := objects.version(kind)) == version:
                continue
            self._versions[kind] = newest
            changed = objects.changed_since(kind, version) if version >= 0 else None
            found = found or changed is None
            for namespace, name in objects[kind] if changed is None else changed:
                obj = objects[kind].get((namespace, name))
                key, declared = (kind, namespace, name), None if obj is None else declaration(obj)
                found = found or declared != self._declared.get(key)
                self._declared[key] = declared
        return found

    # -- reading, for tools --------------------------------------------------------------------------------------

    @property
    def tree(self) -> QueueTree:
        """Queues with their usage and shares, up to date with the objects and the nodes."""
        self._read_queues()
        return self._tree

    @property
    def problems(self) -> Mapping[str, str]:
        """Reasons why declared queues cannot be used, by name."""
        self._read_queues()
        return self._hierarchy.problems

    # -- decisions -----------------------------------------------------------------------------------------------

    def unavailable(self, group: PodGroup) -> str:
        self._read_queues()
        queue = self.queue_of_group(group)
        for name in (queue, ROOT):  # the quota of an invalid root would hold for no queue
            if problem := self._hierarchy.problems.get(name):
                return f"queue {name}: {problem}"
        if queue not in self._tree and _names_other_quota(group):
            owner, namespace = group.queue.partition("/")[0], group.key.namespace
            return f"queue {group.queue} holds for pods of namespace {owner} only, not of {namespace}"
        return self._tree.unavailable(queue)

    def next_queue(self, requests: Mapping[str, Amounts]) -> str:
        self._read_queues()
        if self._order is QueueOrder.USAGE:
            return self._usage.next_queue(set(requests))
        chosen = None
        if self._order is QueueOrder.DRF:
            chosen = next_queue(self._tree, {q: self._with_shares(r) for q, r in requests.items()}, self._free())
        return chosen or self._tree.next_queue(set(requests))

    def group_share(self, group: PodGroup) -> float:
        self._read_queues()
        allocated, nodes = self._tree.usage(group.key).allocated, self.handle.nodes.table()
        capacity = {r: int(nodes.allocatable(r).sum()) for r in allocated}
        self._set_pods(capacity, nodes.allowed_pods)
        return float(dominant_share(allocated, capacity))

    def _free(self) -> Amounts:
        nodes = self.handle.nodes.table()
        usable = usable_nodes(nodes)
        free = {r: int((nodes.allocatable(r) - nodes.requested(r))[usable].sum()) for r in self._resources}
        self._set_pods(free, (nodes.allowed_pods - nodes.pod_counts)[usable])
        return free

    def has_strict_order(self, queue: str) -> bool:
        return queue in self._tree and self._tree.queue(queue).dequeue_strategy is DequeueStrategy.FIFO

    def exceeded(self, group: PodGroup, request: Amounts) -> str:
        """Return the quota that the request exceeds, or the queues that have a claim to what it would borrow.

        A queue may allocate more than it deserves of what no other queue has a claim to. A request for more than is
        free is not held back: without room it is reported as such, and may reclaim.
        """
        self._read_queues()
        queue, tree = self.queue_of_group(group), self._tree
        for quota in tree.allows(queue, self._devices.with_all_names(request)):
            self._set_held_back(queue, is_held=True)
            return str(quota)
        if self._order is QueueOrder.DRF:
            return ""  # it divides what is free by dominant shares, not each resource on its own
        capacity, allocated = tree.capacity(), tree.allocated(ROOT)
        with_shares = self._with_shares(request)
        has_turn = bool(self._turns) and self._turns.has_turn(group.key, queue, with_shares)
        left = tree.left_by_guarantees if has_turn else tree.left_by_claims
        for resource, amount in with_shares.items():
            free = capacity.get(resource, 0) - allocated.get(resource, 0)
            if 0 < amount <= free and amount > left(queue, resource):
                self._set_held_back(queue, is_held=True)
                return self._over_deserved(queue, resource, amount)
        # What a queue deserves is of no use to a job that needs more.
        self._set_held_back(queue, is_held=not is_within_share(tree, queue, with_shares))
        return ""

    def _set_held_back(self, queue: str, *, is_held: bool) -> None:
        self._has_ended_claims |= self._tree.set_held_back(queue, is_held=is_held) and is_held

    def take_ended_claims(self) -> bool:
        ended, self._has_ended_claims = self._has_ended_claims, False
        return ended

    def exceeded_limit(self, group: PodGroup, request: Amounts) -> str:
        if not group.accounts:
            return ""
        self._read_queues()
        queue, request = self.queue_of_group(group), dict(self._devices.with_all_names(request))
        exceeded = self._limited.exceeded(group.key, queue, group.accounts, request)
        if exceeded:
            self._set_held_back(queue, is_held=True)
        return exceeded

    def _path(self, queue: str) -> tuple[str, ...]:
        """Return the queue and those above it, also of one that does not exist."""
        return self._tree.path(queue) if queue in self._tree else (queue,)

    def _over_deserved(self, queue: str, resource: str, amount: int) -> str:
        deserved, allocated = (
            by_resource.get(resource, 0) for by_resource in (self._tree.deserved(queue), self._tree.allocated(queue))
        )
        over, amount_text, deserved_text, allocated_text = (
            format_amount(resource, each) for each in (allocated + amount - deserved, amount, deserved, allocated)
        )
        return (
            f"queue {queue} would be {over} over its deserved, to which other queues have a claim:"
            f" {amount_text} requested, {allocated_text} allocated, {deserved_text} deserved"
        )

    def min_run_seconds(self, group: PodGroup, others: Sequence[PodGroup]) -> Sequence[float]:
        self._read_queues()
        if not self._delays.has_min_run:
            return ()
        return self._delays.min_run_seconds(self.queue_of_group(group), map(self.queue_of_group, others))

    def over_quota(self) -> Mapping[str, float]:
        self._read_queues()
        delays = ((queue, self._delays.of(queue).quota_eviction) for queue in self._delays.evicting)
        return {queue: delay for queue, delay in delays if delay is not None and excess(self._tree, queue)}

    def surplus(self, queue: str, units: Sequence[tuple[EvictionUnit, PodGroup]]) -> Sequence[EvictionUnit]:
        self._read_queues()
        bundles = [self._bundle(unit, group) for unit, group in units]
        chosen = {id(bundle) for bundle in surplus_of(self._tree, queue, bundles)}
        return [unit for (unit, _), bundle in zip(units, bundles, strict=True) if id(bundle) in chosen]

    def may_preempt(self, group: PodGroup, other: PodGroup) -> bool:
        return self.queue_of_group(group) == self.queue_of_group(other)

    def is_within_share(self, group: PodGroup, request: Amounts) -> bool:
        self._read_queues()
        return is_within_share(self._tree, self.queue_of_group(group), self._with_shares(request))

    def is_guaranteed(self, group: PodGroup, request: Amounts) -> bool:
        self._read_queues()
        return is_within_guarantee(self._tree, self.queue_of_group(group), self._with_shares(request))

    def seconds_until_turn(self, group: PodGroup, request: Amounts, now: float) -> float | None:
        self._read_queues()
        queue, with_shares = self.queue_of_group(group), self._with_shares(request)
        if self._tree.allows(queue, self._devices.with_all_names(request)):
            return None  # it waits for its quota first
        seconds = self._turns.seconds_until(group.key, queue, with_shares, now)
        self.tracks_time |= bool(self._turns)
        return seconds

    def seconds_of_turns(self, group: PodGroup, others: Sequence[PodGroup]) -> Sequence[float]:
        if not self._turns:
            return ()
        self._read_queues()
        jobs = ((other.key, self.queue_of_group(other)) for other in others)
        return self._turns.seconds_left(self.queue_of_group(group), jobs)

    def may_reclaim(self, group: PodGroup, request: Amounts) -> bool:
        self._read_queues()
        return may_reclaim(self._tree, self.queue_of_group(group), self._with_shares(request))

    def may_reclaim_from(self, group: PodGroup, request: Amounts, other: PodGroup) -> bool:
        self._read_queues()
        queues = self.queue_of_group(group), self.queue_of_group(other)
        return may_reclaim_from(self._tree, queues[0], self._with_shares(request), queues[1])

    def reclaim(
        self, group: PodGroup, request: Amounts, free: Amounts, units: Sequence[tuple[EvictionUnit, PodGroup]]
    ) -> Sequence[EvictionUnit] | str:
        return exhaust(self.reclaim_steps(group, request, free, units))

    def reclaim_steps(
        self, group: PodGroup, request: Amounts, free: Amounts, units: Sequence[tuple[EvictionUnit, PodGroup]]
    ) -> Steps[Sequence[EvictionUnit] | str]:
        self._read_queues()
        queue, tree = self.queue_of_group(group), self._tree
        # Evictions in queues that do not share an exceeded limit leave it exceeded.
        limits = {exceeded.queue for exceeded in tree.allows(queue, self._devices.with_all_names(request))}
        others = [
            (unit, other)
            for unit, other in units
            if (theirs := self.queue_of_group(other)) != queue and limits.issubset(tree.path(theirs) if limits else ())
        ]
        if units and not others:
            return ()
        headroom = tree.headroom(queue)
        free = {resource: min(amount, headroom.get(resource, amount)) for resource, amount in free.items()}
        bundles: list[Bundle] = []
        for unit, other in others:
            bundles.append(self._bundle(unit, other))
            if len(bundles) % BUNDLES_PER_STEP == 0:
                yield
        found = yield from find_victims(tree, queue, self._with_shares(request), free, bundles)
        if found.reason:
            return found.reason
        chosen = {id(bundle) for bundle in found.victims}
        return [unit for (unit, _), bundle in zip(others, bundles, strict=True) if id(bundle) in chosen]

    def _with_shares(self, amounts: Amounts) -> Amounts:
        """Return the amounts of resources that have shares: not of devices, or pods, that only have quotas."""
        return self._split(amounts)[0]

    def _bundle(self, unit: EvictionUnit, group: PodGroup) -> Bundle:
        """Return what is freed by an eviction; claims that other pods share are part of it."""
        claims = {n: each for pod in unit.pods if pod.spec.resource_claims for n, each in self.claims_of(pod).items()}
        resources: Amounts = {PODS: len(unit.pods)} if self._pods_have_shares or self._pods_have_quotas else {}
        for requests in (*(pod.requests.effective for pod in unit.pods), *claims.values()):
            for resource, amount in requests.items():
                resources[resource] = resources.get(resource, 0) + amount
        names, is_whole = tuple(pod.name for pod in unit.pods), unit.rank is EvictionRank.GROUP
        job, title, queue = " ".join(group.key), group.key.name, self.queue_of_group(group)
        resources = dict(self._devices.with_all_names(resources))
        return Bundle(job, queue, names, resources, is_whole, unit.priority, unit.started, title)
