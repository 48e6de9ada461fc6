"""Allocated and requested amounts of all queues, and the shares that they deserve."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from fractions import Fraction
from itertools import pairwise, repeat

from msgspec import Struct, field

from pyscheduler.api.resources import Amounts
from pyscheduler_plugins.queues.claims import others_claim
from pyscheduler_plugins.queues.hierarchy import Hierarchy, link_queues
from pyscheduler_plugins.queues.quantities import format_amount
from pyscheduler_plugins.queues.queue import Queue, QueueState
from pyscheduler_plugins.queues.queue_node import JobTotals, OrderKey, QueueNode
from pyscheduler_plugins.queues.quota_usage import QuotaUsage


class JobUsage(Struct, frozen=True):
    """Amounts of a job: those of pods with a node, and those of pods that wait for one."""

    allocated: Amounts = field(default_factory=dict)
    pending: Amounts = field(default_factory=dict)


class Exceeded(Struct, frozen=True):
    """A quota that a request exceeds: capability of the queue, or of a queue above it."""

    queue: str
    resource: str
    capability: int
    allocated: int
    requested: int
    terminating: int = 0
    """Amount that terminating pods use, in addition to the allocated one."""

    @property
    def excess(self) -> int:
        """Amount by which the request exceeds the quota."""
        return self.allocated + self.terminating + self.requested - self.capability

    def __str__(self) -> str:
        amounts = (self.excess, self.capability, self.allocated, self.requested, self.terminating)
        excess, capability, allocated, requested, ending = (format_amount(self.resource, each) for each in amounts)
        return (
            f"queue {self.queue} would exceed its capability of {capability} by {excess}:"
            f" {allocated} allocated, {requested} requested"
            + (f", {ending} used by terminating pods" if self.terminating else "")
        )


class QueueTree:
    """Queues with their usage, quotas and shares.

    Shares of a queue's children sum to its own share less what its own jobs have allocated, or meet all requests.
    """

    def __init__(self, hierarchy: Hierarchy | None = None, capacity: Mapping[str, int] | None = None) -> None:
        self._capacity: Amounts = dict(capacity or {})
        self._totals: dict[str, JobTotals] = {}
        self._jobs: dict[Hashable, tuple[str, JobUsage]] = {}
        self._nodes: dict[str, QueueNode] = {}
        self.terminating = QuotaUsage(self._path_of_any)
        """Resources of terminating pods."""
        self.without_shares = QuotaUsage(self._path_of_any)
        """Amounts that jobs have allocated without shares: devices that nodes do not list, pods if none has a share."""
        self._root: QueueNode
        self._parents: dict[str, str] = {}
        """Names of the parents of all queues; "" for the root."""
        self._held_back: set[str] = set()
        self.set_queues(hierarchy or link_queues(()))

    # -- changes -------------------------------------------------------------------------------------------------

    def set_queues(self, hierarchy: Hierarchy) -> None:
        """Replace the queues. Usage stays with the names of the queues, also of those that do not exist (yet)."""
        self._nodes = {}
        for queue in hierarchy.queues.values():
            parent = self._nodes[queue.parent] if self._nodes else None
            node = QueueNode(queue, parent, self._totals.setdefault(queue.name, JobTotals()))
            self._nodes[queue.name] = node
            if parent is None:
                self._root = node
            else:
                parent.add_child(node)
        self._parents = {name: node.parent.queue.name if node.parent else "" for name, node in self._nodes.items()}
        for node in self._nodes.values():
            node.set_columns()
            node.set_held(is_held=node.queue.name in self._held_back)
        for node in reversed(self._nodes.values()):
            node.sum_guarantees()
            for resource in {*node.own.allocated, *node.own.pending}:
                node.add(resource, node.own.allocated.get(resource, 0))
        self.terminating.set_queues()
        self.without_shares.set_queues()
        self.set_capacity(self._capacity)

    def set_capacity(self, capacity: Mapping[str, int]) -> None:
        """Set the amounts that all queues share, such as the allocatable of all nodes."""
        self._capacity = dict(capacity)
        root = self._root
        for resource in {*root.deserved, *capacity}:
            amount = capacity.get(resource, 0)
            limit = root.queue.capability.get(resource)
            amount = amount if limit is None else min(amount, limit)
            if root.deserved.get(resource, 0) != amount:
                root.deserved[resource] = amount
                root.stale.add(resource)
                for node in self._nodes.values():
                    node.reset_order()
                for queue in list(self._held_back):
                    self.set_held_back(queue, is_held=False)  # its next job may be within its share now

    def set_usage(self, job: Hashable, queue: str, usage: JobUsage) -> None:
        """Set the usage of a job; `JobUsage()` for a new one."""
        old_queue, old = self._jobs.get(job, (queue, JobUsage()))
        if old_queue != queue:
            self.remove_job(job)
            old = JobUsage()
        self._jobs[job] = (queue, usage)
        self._change(queue, old, usage)

    def remove_job(self, job: Hashable) -> None:
        """Remove a job and its usage."""
        removed = self._jobs.pop(job, None)
        if removed is not None:
            self._change(removed[0], removed[1], JobUsage())

    def set_held_back(self, queue: str, *, is_held: bool) -> bool:
        """Set whether the next job of a queue is held back, so that the queue has no claim to the rest of its share.

        Return True if it was set otherwise.
        """
        if is_held == (queue in self._held_back):
            return False
        (self._held_back.add if is_held else self._held_back.discard)(queue)
        if queue in self._nodes:
            self._nodes[queue].set_held(is_held=is_held)
        return True

    def _change(self, queue: str, old: JobUsage, new: JobUsage) -> None:
        if old is new:
            return
        totals = self._totals.get(queue)
        if totals is None:
            totals = self._totals[queue] = JobTotals()
        node = self._nodes.get(queue)
        for resource in {**old.allocated, **old.pending, **new.allocated, **new.pending}:
            allocated = new.allocated.get(resource, 0) - old.allocated.get(resource, 0)
            pending = new.pending.get(resource, 0) - old.pending.get(resource, 0)
            if allocated:
                totals.allocated[resource] = totals.allocated.get(resource, 0) + allocated
            if pending:
                totals.pending[resource] = totals.pending.get(resource, 0) + pending
            if allocated < 0:
                self.set_held_back(queue, is_held=False)  # its next job may be within the share now
            if node is not None and (allocated or pending):
                node.add(resource, allocated, is_started=allocated == -pending)

    # -- reading -------------------------------------------------------------------------------------------------

    def __contains__(self, queue: str) -> bool:
        return queue in self._nodes

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all queues, each after its parent; the root is the first one."""
        return iter(self._nodes)

    def queue(self, name: str) -> Queue:
        """Return the queue as declared. KeyError if there is none."""
        return self._nodes[name].queue

    def children(self, queue: str) -> tuple[str, ...]:
        """Return the names of the queues directly below."""
        return tuple(child.queue.name for child in self._nodes[queue].children)

    def path(self, queue: str) -> tuple[str, ...]:
        """Return the names of the queue and of all queues above it; the root is the last one."""
        return tuple(node.queue.name for node in self._nodes[queue].path())

    def capacity(self) -> Mapping[str, int]:
        """Return the amounts that all queues share."""
        return self._root.deserved

    def allocated(self, queue: str) -> Mapping[str, int]:
        """Return the allocated amounts of the queue and all queues below it."""
        return self._nodes[queue].allocated

    def allocated_without_queue(self, queue: str) -> Mapping[str, int]:
        """Return what jobs have allocated that name a queue which does not exist, or cannot be used."""
        return self._totals[queue].allocated if queue in self._totals else {}

    def usage(self, job: Hashable) -> JobUsage:
        """Return the usage of a job; nothing for an unknown one."""
        return self._jobs.get(job, ("", JobUsage()))[1]

    def requested(self, queue: str) -> Mapping[str, int]:
        """Return the allocated and pending amounts of the subtree, as far as its capabilities allow."""
        return self._nodes[queue].demand

    def guarantee(self, queue: str) -> Mapping[str, int]:
        """Return the guarantee of the queue: at least the sum of its children's."""
        return self._nodes[queue].guarantee

    def deserved(self, queue: str) -> Mapping[str, int]:
        """Return the share of each resource that the queue may reclaim, at most what it requests."""
        return self._divided(queue).deserved

    def _divided(self, queue: str) -> QueueNode:
        """Return a queue after the division of all queues above it."""
        node = self._nodes[queue]
        for above in reversed(node.path()[1:]):
            above.divide()
        return node

    def refresh(self) -> None:
        """Bring the shares of all queues up to date at once. Reading a share refreshes the path to it only."""
        for node in self._nodes.values():
            if node.stale:
                node.divide()

    def share(self, queue: str) -> Fraction:
        """Return the largest ratio of allocated to deserved: 0 if nothing is allocated, above 1 if it borrows.

        Without a share of a resource the ratio is 1 plus that to the capacity, so it is finite.
        """
        deserved, node = self.deserved(queue), self._nodes[queue]
        ratios = [Fraction(0)]
        for resource, allocated in node.allocated.items():
            if allocated <= 0:
                continue
            own, whole = deserved.get(resource, 0), self._root.deserved.get(resource, 0)
            ratios.append(Fraction(allocated, own) if own else 1 + Fraction(allocated, whole or allocated))
        return max(ratios)

    def order_key(self, queue: str) -> OrderKey:
        """Return the sort key of queues: priority, then queues that have a share of all they request, then `share`."""
        return self._divided(queue).order_key(self._root.deserved)

    def next_queue(self, queues: Set[str], first: Callable[[str], float] | None = None) -> str:
        """Return the one of these queues that is served next, "" if none exists.

        From the root down, it is below the child that comes first: by priority, then by `first`, then by its share.
        """
        above, level = set[str](), queues
        while level := set(map(self._parents.get, level, repeat(""))) - {""}:
            above |= level
        node = self._root
        while node.queue.name not in queues:
            if node.queue.name not in above:
                return ""  # none exists
            node.divide()
            node = node.first_child((queues, above), first, self._root.deserved)
        return node.queue.name

    def left_by_claims(self, queue: str, resource: str) -> int:
        """Return how much the queue may allocate of what is free: its share, or what others have no claim to."""
        room = self._root.deserved.get(resource, 0) - self._root.allocated.get(resource, 0)
        for parent, child in pairwise(reversed(self._nodes[queue].path())):
            if parent.stale:
                parent.divide()
            room = max(child.unmet(resource), room - others_claim(parent, child, resource))
        return room

    def left_by_guarantees(self, queue: str, resource: str) -> int:
        """Return how much of what is free is not guaranteed to other queues that request it."""
        free = self._root.deserved.get(resource, 0) - self._root.allocated.get(resource, 0)
        others = self._others(queue)
        return free - sum(max(0, other.guaranteed(resource) - other.allocated.get(resource, 0)) for other in others)

    def most_besides_guarantees(self, queue: str, resource: str) -> int:
        """Return how much the queue may allocate in all while other queues allocate what is guaranteed to them."""
        capacity = self._root.deserved.get(resource, 0)
        return capacity - sum(other.guaranteed(resource) for other in self._others(queue))

    def _others(self, queue: str) -> Iterator[QueueNode]:
        """Yield the queues beside this one, and beside those above it."""
        for parent, child in pairwise(reversed(self._nodes[queue].path())):
            yield from (other for other in parent.children if other is not child)

    def over_deserved(self, queue: str) -> Amounts:
        """Return the amounts that are allocated above the queue's share; without resources in which it is not above."""
        deserved = self.deserved(queue)
        allocated = self._nodes[queue].allocated
        return {r: a - deserved.get(r, 0) for r, a in allocated.items() if a > deserved.get(r, 0)}

    def allows(self, queue: str, request: Mapping[str, int]) -> tuple[Exceeded, ...]:
        """Return the quotas that the request exceeds, of the queue first; () if it is within all of them.

        A resource of which nothing is requested is never exceeded, even if more than the quota is allocated.
        """
        return tuple(
            Exceeded(node.queue.name, resource, capability, allocated, requested, terminating)
            for node in self._nodes[queue].path()
            for resource, requested in request.items()
            if requested > 0 and (capability := node.queue.capability.get(resource)) is not None
            if (allocated := self._counted(node, resource))
            + (terminating := self.terminating.of(node.queue.name).get(resource, 0))
            + requested
            > capability
        )

    def counted(self, queue: str) -> Amounts:
        """Return what counts toward the quota of the queue, without terminating pods; also resources without shares."""
        node = self._nodes[queue]
        return {r: self._counted(node, r) for r in (*node.allocated, *self.without_shares.of(queue))}

    def _counted(self, node: QueueNode, resource: str) -> int:
        return node.allocated.get(resource, 0) + self.without_shares.of(node.queue.name).get(resource, 0)

    def _path_of_any(self, queue: str) -> tuple[str, ...]:
        """Return the path of a queue; () for one that does not exist."""
        return self.path(queue) if queue in self._nodes else ()

    def headroom(self, queue: str) -> Amounts:
        """Return what quotas leave for the queue; negative if more is allocated, without unlimited resources."""
        left: Amounts = {}
        for node in self._nodes[queue].path():
            for resource, capability in node.queue.capability.items():
                room = capability - self._counted(node, resource)
                left[resource] = min(left.get(resource, room), room)
        return left

    def unavailable(self, queue: str) -> str:
        """Return the reason why no job may start in the queue, "" if jobs may."""
        node = self._nodes.get(queue)
        if node is None:
            return f"queue {queue} does not exist"
        if node.queue.state is not QueueState.OPEN:
            return f"queue {queue} is {node.queue.state}"
        if node.children:
            return f"queue {queue} has child queues; jobs belong into one of them"
        return ""
