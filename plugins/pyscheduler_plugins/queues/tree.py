"""Allocated and requested amounts of all queues, and the shares that they deserve."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from fractions import Fraction

from msgspec import Struct, field

from pyscheduler.api.resources import Amounts
from pyscheduler_plugins.queues.hierarchy import Hierarchy, link_queues
from pyscheduler_plugins.queues.quantities import format_amount
from pyscheduler_plugins.queues.queue import Queue, QueueState
from pyscheduler_plugins.queues.queue_node import JobTotals, OrderKey, QueueNode


class Usage(Struct, frozen=True):
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

    @property
    def excess(self) -> int:
        """Amount by which the request exceeds the quota."""
        return self.allocated + self.requested - self.capability

    def __str__(self) -> str:
        amounts = (self.excess, self.capability, self.allocated, self.requested)
        excess, capability, allocated, requested = (format_amount(self.resource, each) for each in amounts)
        return (
            f"queue {self.queue} would exceed its capability of {capability} by {excess}:"
            f" {allocated} allocated, {requested} requested"
        )


class QueueTree:
    """Queues with their usage, quotas and shares.

    Shares of a queue's children sum to its own share less what its own jobs have allocated, or meet all requests.
    """

    def __init__(self, hierarchy: Hierarchy | None = None, capacity: Mapping[str, int] | None = None) -> None:
        self._capacity: Amounts = dict(capacity or {})
        self._totals: dict[str, JobTotals] = {}
        self._jobs: dict[Hashable, tuple[str, Usage]] = {}
        self._nodes: dict[str, QueueNode] = {}
        self.set_queues(hierarchy or link_queues(()))

    # -- changes -------------------------------------------------------------------------------------------------

    def set_queues(self, hierarchy: Hierarchy) -> None:
        """Replace the queues. Usage stays with the names of the queues, also of those that do not exist (yet)."""
        self._nodes = {}
        for queue in hierarchy.queues.values():
            parent = self._nodes[queue.parent] if self._nodes else None
            node = QueueNode(queue, parent, self._totals.setdefault(queue.name, JobTotals()))
            self._nodes[queue.name] = node
            if parent is not None:
                parent.children.append(node)
        for node in reversed(self._nodes.values()):
            node.sum_guarantees()
            for resource in {*node.own.allocated, *node.own.pending}:
                node.add(resource, node.own.allocated.get(resource, 0))
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
                    node.order = None

    def set_usage(self, job: Hashable, queue: str, usage: Usage) -> None:
        """Set the usage of a job; `Usage()` for a new one."""
        old_queue, old = self._jobs.get(job, (queue, Usage()))
        if old_queue != queue:
            self.remove_job(job)
            old = Usage()
        self._jobs[job] = (queue, usage)
        self._change(queue, old, usage)

    def remove_job(self, job: Hashable) -> None:
        """Remove a job and its usage."""
        removed = self._jobs.pop(job, None)
        if removed is not None:
            self._change(removed[0], removed[1], Usage())

    def _change(self, queue: str, old: Usage, new: Usage) -> None:
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
            if node is not None and (allocated or pending):
                node.add(resource, allocated)

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

    def requested(self, queue: str) -> Mapping[str, int]:
        """Return the allocated and pending amounts of the subtree, as far as its capabilities allow."""
        return self._nodes[queue].demand

    def guarantee(self, queue: str) -> Mapping[str, int]:
        """Return the guarantee of the queue: at least the sum of its children's."""
        return self._nodes[queue].guarantee

    def deserved(self, queue: str) -> Mapping[str, int]:
        """Return the share of each resource that the queue may reclaim, at most what it requests."""
        node = self._nodes[queue]
        for above in reversed(list(node.path())[1:]):
            above.divide()
        return node.deserved

    def refresh(self) -> None:
        """Bring the shares of all queues up to date at once. Reading a share refreshes the path to it only."""
        for node in self._nodes.values():
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
        deserved, node, available = self.deserved(queue), self._nodes[queue], self._root.deserved
        without = any(n > 0 and available.get(r) and not deserved.get(r) for r, n in node.demand.items())
        return -node.queue.priority, without, float(self.share(queue)), queue

    def next_queue(self, queues: Set[str], first: Callable[[str], float] = lambda _: 0.0) -> str:
        """Return the one of these queues that is served next, "" if none exists.

        From the root down, it is below the child that comes first: by priority, then by `first`, then by its share.
        """
        node = self._root
        if node.queue.name not in queues and not _has_any(node, queues):
            return ""
        while node.children and node.queue.name not in queues:
            node.divide()
            children = [each for each in node.children if each.queue.name in queues or _has_any(each, queues)]
            node = min(children, key=lambda each: self._order_key(each, first))
        return node.queue.name

    def _order_key(self, node: QueueNode, first: Callable[[str], float]) -> tuple[int, float, OrderKey]:
        """Return the sort key of a queue below one that has been divided."""
        order = node.order
        if order is None:
            order = node.order = self.order_key(node.queue.name)
        return order[0], first(node.queue.name), order

    def unmet_of_children(self, queue: str, resource: str) -> Iterator[tuple[str, int]]:
        """Yield the queues directly below that deserve more than they have allocated, and how much more."""
        self.deserved(queue)
        node = self._nodes[queue]
        node.divide()
        for child in node.children:
            amount = child.deserved.get(resource, 0) - child.allocated.get(resource, 0)
            if amount > 0:
                yield child.queue.name, amount

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
            Exceeded(node.queue.name, resource, capability, allocated, requested)
            for node in self._nodes[queue].path()
            for resource, requested in request.items()
            if requested > 0 and (capability := node.queue.capability.get(resource)) is not None
            if (allocated := node.allocated.get(resource, 0)) + requested > capability
        )

    def headroom(self, queue: str) -> Amounts:
        """Return what quotas leave for the queue; negative if more is allocated, without unlimited resources."""
        left: Amounts = {}
        for node in self._nodes[queue].path():
            for resource, capability in node.queue.capability.items():
                room = capability - node.allocated.get(resource, 0)
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

    @property
    def _root(self) -> QueueNode:
        return next(iter(self._nodes.values()))


def _has_any(node: QueueNode, queues: Set[str]) -> bool:
    """Return True if a queue below the node is one of these."""
    return any(child.queue.name in queues or _has_any(child, queues) for child in node.children)
