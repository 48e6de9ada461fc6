"""Rows of `pyscheduler queues`: the tree of queues with shares and usage, and the group that is next in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from pyscheduler.api.resources import CPU, Amounts
from pyscheduler.cli.group_rows import GATED, GroupRow, quota_plugin
from pyscheduler.core.context import Context
from pyscheduler_plugins.queues.limits import ANY
from pyscheduler_plugins.queues.plugin import Queues
from pyscheduler_plugins.queues.queue import Queue
from pyscheduler_plugins.queues.tree import QueueTree

INVALID, MISSING = "Invalid", "Missing"
Amount = int | float


class ResourceRow(msgspec.Struct, frozen=True, rename="camel"):
    """One resource of a queue, in cores of cpu, bytes or counts."""

    allocated: Amount
    requested: Amount
    """Allocated and pending, as far as quotas allow."""
    share: Amount
    """Amount that the queue may claim now: at most what it requests."""
    borrowed: Amount
    """Amount that is allocated above the share."""
    deserved: Amount | None
    """Amount in the spec; None: by weight."""
    guarantee: Amount
    capability: Amount | None
    """None: no limit."""


class GroupCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Numbers of groups of a queue and of all queues below it."""

    running: int = 0
    """Groups with nodes."""
    waiting: int = 0
    """Groups that are attempted and lack nodes for their minimum."""
    waiting_pods: int = 0
    gated: int = 0
    """Groups that are not attempted."""

    def with_group(self, group: GroupRow) -> GroupCounts:
        """Return the numbers with one more group."""
        return GroupCounts(
            self.running + bool(group.placed),
            self.waiting + group.waits,
            self.waiting_pods + (group.pending if group.waits else 0),
            self.gated + (group.state == GATED),
        )


class NextGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Group that is next in a queue, and why it does not run."""

    namespace: str
    name: str
    api: str
    reason: str
    message: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class QueueRow(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Displayed queue. The fields are the keys of the JSON output."""

    name: str
    parent: str = ""
    depth: int = 0
    """Number of queues above it."""
    state: str
    problem: str = ""
    weight: int | None = None
    priority: int | None = None
    resources: Mapping[str, ResourceRow] = msgspec.field(default_factory=dict)
    groups: GroupCounts = GroupCounts()
    next: NextGroup | None = None
    """Group of the queue itself that is attempted next; of those that are not, the first one if there is no other."""


def queue_rows(context: Context, groups: Sequence[GroupRow]) -> list[QueueRow]:
    """Return the queues, each after its parent, then those that cannot be used. Empty without the plugin Queues."""
    plugin = quota_plugin(context)
    return [] if plugin is None else _Queues(plugin, groups).rows()


class _Queues:
    """The queues of the plugin, and their groups."""

    def __init__(self, plugin: Queues, groups: Iterable[GroupRow]) -> None:
        self._tree: QueueTree = plugin.tree
        self._problems = plugin.problems
        self._limited = {limit.queue for limit in plugin.args.limits} - {ANY}
        self._by_queue: dict[str, list[GroupRow]] = {}
        self._counts: dict[str, GroupCounts] = {}
        for group in groups:
            if group.queue:
                self._by_queue.setdefault(group.queue, []).append(group)
                path = self._tree.path(group.queue) if group.queue in self._tree else (group.queue,)
                for queue in path:
                    self._counts[queue] = self._counts.get(queue, GroupCounts()).with_group(group)

    def rows(self) -> list[QueueRow]:
        root = next(iter(self._tree))
        rows = list(self._below(root, 0))
        absent = {name for name in (*self._problems, *self._by_queue, *self._limited) if name not in self._tree}
        return rows + [self._unusable(name) for name in sorted(absent)]

    def _below(self, name: str, depth: int) -> Iterator[QueueRow]:
        yield self._row(self._tree.queue(name), depth)
        for child in sorted(self._tree.children(name)):
            yield from self._below(child, depth + 1)

    def _row(self, queue: Queue, depth: int) -> QueueRow:
        return QueueRow(
            name=queue.name,
            parent=queue.parent if depth else "",
            depth=depth,
            state=str(queue.state),
            problem=self._problems.get(queue.name, ""),
            weight=queue.weight,
            priority=queue.priority,
            resources=self._resources(queue),
            groups=self._counts.get(queue.name, GroupCounts()),
            next=self._next(queue.name),
        )

    def _unusable(self, name: str) -> QueueRow:
        problem = self._problems.get(name, "")
        missing = f"queue {name} does not exist" + (", and a limit names it" if name in self._limited else "")
        return QueueRow(
            name=name,
            state=INVALID if problem else MISSING,
            problem=problem or missing,
            resources={
                resource: ResourceRow(_amount(resource, amount), _amount(resource, amount), 0, 0, None, 0, None)
                for resource, amount in sorted(self._tree.allocated_without_queue(name).items())
                if amount
            },
            groups=self._counts.get(name, GroupCounts()),
            next=self._next(name),
        )

    def _resources(self, queue: Queue) -> dict[str, ResourceRow]:
        tree, name = self._tree, queue.name
        allocated, requested, share, over = (
            tree.counted(name),
            tree.requested(name),
            tree.deserved(name),
            tree.over_deserved(name),
        )
        guarantee = tree.guarantee(name)
        used = {resource for amounts in (allocated, requested) for resource, amount in amounts.items() if amount}
        declared: tuple[Amounts, ...] = (queue.deserved, queue.capability, queue.guarantee)
        named = used.union(*declared)
        return {
            resource: ResourceRow(
                _amount(resource, allocated.get(resource, 0)),
                _amount(resource, requested.get(resource, 0)),
                _amount(resource, share.get(resource, 0)),
                _amount(resource, over.get(resource, 0)),
                _optional(resource, queue.deserved),
                _amount(resource, guarantee.get(resource, 0)),
                _optional(resource, queue.capability),
            )
            for resource in sorted(named, key=lambda resource: (resource != CPU, resource))
        }

    def _next(self, queue: str) -> NextGroup | None:
        groups = self._by_queue.get(queue, ())
        first = min((g for g in groups if g.position), key=lambda group: group.position or 0, default=None)
        if first is None:
            first = next((group for group in groups if group.state == GATED), None)
        if first is None:
            return None
        return NextGroup(first.namespace, first.name, first.api, first.reason, first.message)


def _amount(resource: str, amount: int) -> Amount:
    return amount / 1000 if resource == CPU and amount % 1000 else amount // 1000 if resource == CPU else amount


def _optional(resource: str, amounts: Mapping[str, int]) -> Amount | None:
    return _amount(resource, amounts[resource]) if resource in amounts else None
