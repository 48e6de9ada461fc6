"""Queues: divide the cluster among queues by weight, quota and guarantee, and reclaim what is above a share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyscheduler.api import EvictionRank, EvictionUnit, Handle, Pod, PodGroup, PodGroupKey, QuotaPlugin
from pyscheduler.api.resources import Amounts
from pyscheduler_plugins.queues.bundles import Bundle
from pyscheduler_plugins.queues.hierarchy import Hierarchy, read_hierarchy
from pyscheduler_plugins.queues.quantities import format_amount
from pyscheduler_plugins.queues.queue import ELASTIC_QUOTA, QUEUE
from pyscheduler_plugins.queues.reclaim import find_victims
from pyscheduler_plugins.queues.tree import QueueTree, Usage

DEFAULT_QUEUE = "default"
"""Queue of pods that name none. It exists without an object."""
QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
"""Annotation with the queue of a pod without a group."""


class Queues(QuotaPlugin):
    """Volcano's queues and the ElasticQuotas of namespaces.

    A queue allocates at most its quota, and at most the share that it deserves while others request theirs. What others
    have allocated above their shares is reclaimed for a group that fits into the share of its queue.
    """

    name = "Queues"
    watches = (QUEUE, ELASTIC_QUOTA)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._tree = QueueTree()
        self._hierarchy = Hierarchy({}, {})
        self._versions = (-1, -1)
        self._by_namespace: Mapping[str, str] = {}
        self._resources: set[str] = set()
        self._nodes: tuple[int, int] = (-1, -1)
        self._queues: dict[PodGroupKey, str] = {}

    # -- usage ---------------------------------------------------------------------------------------------------

    def queue_of(self, pod: Pod) -> str:
        return pod.annotations.get(QUEUE_ANNOTATION, "")

    def set_usage(self, group: PodGroup, allocated: Amounts, pending: Amounts) -> None:
        self._resources.update(allocated, pending)
        self._read_queues()
        queue = self._queues[group.key] = self._queue_of(group)
        self._tree.set_usage(group.key, queue, Usage(allocated, pending))

    def remove_usage(self, key: PodGroupKey) -> None:
        self._tree.remove_job(key)
        self._queues.pop(key, None)

    def _queue_of(self, group: PodGroup) -> str:
        """Return the queue that the group names, or that of its namespace's ElasticQuota, or the default one."""
        return group.queue or self._by_namespace.get(group.key.namespace, DEFAULT_QUEUE)

    def _read_queues(self) -> None:
        """Bring the tree up to date with the objects and the nodes."""
        objects = self.handle.objects
        versions = objects.version(QUEUE), objects.version(ELASTIC_QUOTA)
        if versions != self._versions:
            self._versions = versions
            queues = {name: queue for (_, name), queue in objects[QUEUE].items()}
            queues.setdefault(DEFAULT_QUEUE, {"metadata": {"name": DEFAULT_QUEUE}, "spec": {}})
            self._hierarchy = read_hierarchy(queues.values(), objects[ELASTIC_QUOTA].values())
            self._by_namespace = {q.namespace: q.name for q in self._hierarchy.queues.values() if q.namespace}
            self._tree.set_queues(self._hierarchy)
        nodes = self.handle.nodes.table()
        if (nodes.version, len(self._resources)) != self._nodes:
            self._nodes = nodes.version, len(self._resources)
            self._tree.set_capacity({r: int(nodes.allocatable(r).sum()) for r in self._resources})

    # -- decisions -----------------------------------------------------------------------------------------------

    def unavailable(self, group: PodGroup) -> str:
        self._read_queues()
        queue = self._queue_of(group)
        problem = self._hierarchy.problems.get(queue)
        return f"queue {queue}: {problem}" if problem else self._tree.unavailable(queue)

    def exceeded(self, group: PodGroup, request: Amounts) -> str:
        """Return the quota that the request exceeds, or the queues that have a claim to what it would borrow.

        A queue may allocate more than it deserves of what no other queue has a claim to. A request for more than is
        free is not held back: without room it is reported as such, and may reclaim.
        """
        self._read_queues()
        queue, tree = self._queue_of(group), self._tree
        for quota in tree.allows(queue, request):
            return str(quota)
        path = tree.path(queue)
        for resource, amount in request.items():
            room = tree.capacity().get(resource, 0) - tree.allocated(path[-1]).get(resource, 0)
            if not 0 < amount <= room:
                continue
            for parent, child in zip(reversed(path), list(reversed(path))[1:], strict=False):
                own, share = self._unmet(child, resource), tree.share(child)
                # Jobs are indivisible: if all of them are larger than what is left of the shares, claims that held back
                # each other would leave the room to none.
                siblings = [each for each in tree.children(parent) if each != child]
                claims = sum(self._unmet(each, resource) for each in siblings if not own or tree.share(each) < share)
                room = max(own, room - claims)
            if amount > room:
                return self._over_deserved(queue, resource, amount)
        return ""

    def _unmet(self, queue: str, resource: str) -> int:
        """Return what the queue deserves and has not allocated yet; what it deserves is at most what it requests."""
        tree = self._tree
        return max(0, tree.deserved(queue).get(resource, 0) - tree.allocated(queue).get(resource, 0))

    def _over_deserved(self, queue: str, resource: str, amount: int) -> str:
        deserved, allocated = (
            by_resource.get(resource, 0) for by_resource in (self._tree.deserved(queue), self._tree.allocated(queue))
        )
        over, amount_text, deserved_text, allocated_text = (
            format_amount(resource, each) for each in (allocated + amount - deserved, amount, deserved, allocated)
        )
        return (
            f"queue {queue} would be {over} {resource} over its deserved, to which other queues have a claim:"
            f" {amount_text} requested, {allocated_text} allocated, {deserved_text} deserved"
        )

    def may_preempt(self, group: PodGroup, other: PodGroup) -> bool:
        return self._queue_of(group) == self._queue_of(other)

    def reclaim(
        self, group: PodGroup, request: Amounts, free: Amounts, units: Sequence[tuple[EvictionUnit, PodGroup]]
    ) -> Sequence[EvictionUnit] | str:
        self._read_queues()
        queue = self._queue_of(group)
        others = [(unit, other) for unit, other in units if self._queue_of(other) != queue]
        if not others:
            return ()
        bundles = [_bundle(unit, other, self._queue_of(other)) for unit, other in others]
        found = find_victims(self._tree, queue, request, free, bundles)
        if found.reason:
            return found.reason
        chosen = {id(bundle) for bundle in found.victims}
        return [unit for (unit, _), bundle in zip(others, bundles, strict=True) if id(bundle) in chosen]


def _bundle(unit: EvictionUnit, group: PodGroup, queue: str) -> Bundle:
    resources: Amounts = {}
    for pod in unit.pods:
        for resource, amount in pod.requests.effective.items():
            resources[resource] = resources.get(resource, 0) + amount
    names, is_whole = tuple(pod.name for pod in unit.pods), unit.rank is EvictionRank.GROUP
    return Bundle(group.key.name, queue, names, resources, is_whole, unit.priority, unit.started)
