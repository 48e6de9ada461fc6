"""The hierarchy of queues: which of the declared queues can be used, and below which parent."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pyscheduler_plugins.queues.queue import (
    ROOT,
    Queue,
    QueueState,
    elastic_quota_pool,
    read_elastic_quota,
    read_queue,
)


class Hierarchy(Struct, frozen=True):
    """Usable queues, each after its parent, and what is wrong with queues."""

    queues: Mapping[str, Queue]
    """By name. The first one is the root. Open children of a closed queue are Closing."""
    problems: Mapping[str, str]
    """Text by name of the queue. Queues with an invalid field, an unknown parent or a cycle are left out."""
    quotas: Mapping[str, str] = {}
    """Name of the ElasticQuota's queue by namespace. An invalid quota has an entry too: it must not become no limit."""


def read_hierarchy(queues: Iterable[Mapping[str, Any]], quotas: Iterable[Mapping[str, Any]]) -> Hierarchy:
    """Return the hierarchy of Volcano's Queue objects and of ElasticQuota objects."""
    declared: list[Queue] = []
    problems: dict[str, str] = {}
    for queue in queues:
        _read_into(declared, problems, str(_metadata(queue).get("name")), read_queue(queue))
    quota_queues: list[Queue] = []
    by_namespace: dict[str, str] = {}
    for quota in quotas:
        meta = _metadata(quota)
        namespace = str(meta.get("namespace"))
        name = f"{namespace}/{meta.get('name')}"
        by_namespace.setdefault(namespace, name)
        _read_into(quota_queues, problems, name, read_elastic_quota(quota))
    if quota_queues:
        declared += [elastic_quota_pool(quota_queues), *quota_queues]
    linked = link_queues(declared)
    by_namespace.update((queue.namespace, queue.name) for queue in linked.queues.values() if queue.namespace)
    return Hierarchy(linked.queues, {**linked.problems, **problems}, by_namespace)


def link_queues(declared: Iterable[Queue]) -> Hierarchy:
    """Return the hierarchy of the declared queues. The root is added unless it is one of them."""
    problems: dict[str, str] = {}
    by_name = _by_name(declared, problems)
    root = by_name.pop(ROOT, Queue(name=ROOT))
    children: dict[str, list[Queue]] = {}
    for queue in by_name.values():
        children.setdefault(queue.parent, []).append(queue)
    linked = _descendants(root, children, problems)
    causes: dict[str, str] = {}
    for queue in by_name.values():
        if queue.name not in linked:
            problems[queue.name] = _why_unlinked(queue, by_name, causes)
    return Hierarchy(linked, problems)


def _metadata(of: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = of.get("metadata")
    return meta if isinstance(meta, Mapping) else {}


def _read_into(queues: list[Queue], problems: dict[str, str], name: str, read: Queue | str) -> None:
    if isinstance(read, Queue):
        queues.append(read)
    else:
        problems[name] = read


def _by_name(declared: Iterable[Queue], problems: dict[str, str]) -> dict[str, Queue]:
    """Return the queues without duplicates, of which the first one is valid."""
    by_name: dict[str, Queue] = {}
    quotas: dict[str, str] = {}
    for queue in declared:
        if queue.name in by_name:
            problems[queue.name] = f'metadata.name: Duplicate value: "{queue.name}"'
        elif queue.namespace in quotas:
            duplicate = f'metadata.namespace: Duplicate value: "{queue.namespace}"'
            problems[queue.name] = f'{duplicate}: the namespace has the quota "{quotas[queue.namespace]}"'
        else:
            by_name[queue.name] = queue
            if queue.namespace:
                quotas[queue.namespace] = queue.name
    return by_name


def _descendants(root: Queue, children: Mapping[str, list[Queue]], problems: dict[str, str]) -> dict[str, Queue]:
    """Return the root and all queues below it, each after its parent."""
    linked = {root.name: root}
    remaining = deque([root])
    while remaining:
        parent = remaining.popleft()
        for child in children.get(parent.name, ()):
            if parent.state is not QueueState.OPEN and child.state is QueueState.OPEN:
                problems[child.name] = f'spec.parent: Invalid value: "{parent.name}": the queue is {parent.state}'
                child = replace(child, state=QueueState.CLOSING)
            linked[child.name] = child
            remaining.append(child)
    return linked


def _why_unlinked(queue: Queue, by_name: Mapping[str, Queue], causes: dict[str, str]) -> str:
    """Return the reason why the queue is not below the root. `causes` has the texts of the queues walked so far."""
    if queue.parent not in by_name:
        return f'spec.parent: Not found: "{queue.parent}"'
    walked = {queue.name: None}
    last = queue
    while (parent := last.parent) in by_name and parent not in walked and parent not in causes:
        walked[parent] = None
        last = by_name[parent]
    if parent in causes:
        cause = causes[parent]
    elif parent in walked:
        names = list(walked)
        cycle = names[names.index(parent) :]
        cause = f"the parents form a cycle: {' -> '.join([*cycle, parent])}"
    else:
        cause = f'the parent "{parent}" of queue "{last.name}" is not found'
    causes.update(dict.fromkeys(walked, cause))
    return f'spec.parent: Invalid value: "{queue.parent}": {cause}'
