"""Dumps of queue and cache for debugging: /debug/queue, /debug/cache, and both in the log on SIGUSR2.

A cluster may have 150,000 pods, and creating a page blocks scheduling. So a page shows a part, the number of further
entries, and the query for the next page: `?offset=` and `?limit=`, or one pod or node by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from pyscheduler import logs
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.resources import CPU
from pyscheduler.clock import Clock, rfc3339
from pyscheduler.core.context import Context
from pyscheduler.core.queue.entry import QueueEntry, Tier
from pyscheduler.core.state.node import NodeRow
from pyscheduler.shell.serving.http import BadRequest, number
from pyscheduler.shell.serving.messages import ServerRequest

PODS: Final = 200
MOST_PODS: Final = 500
"""Pods of the queue on one page: default and maximum. Each takes about 10 µs."""
NODES: Final = 100
MOST_NODES: Final = 500
"""Nodes on one page, each with its pods' names: default and maximum."""
MOST_OFFSET: Final = 10_000_000
_AT_ONCE = 50
"""Lines that are logged before the event loop gets a turn."""
_TIERS = {tier.value: tier for tier in Tier}
_log = logs.get("dump")


class Dumps:
    """Dumps of a core's state; its monotonic times become wall-clock times."""

    def __init__(self, context: Context, clock: Clock) -> None:
        self._context = context
        self._clock = clock

    def queue(self, request: ServerRequest) -> dict[str, Any]:
        """Return the queued and in-flight pods: `?tier=` for one tier, `?pod=namespace/name` for one pod."""
        limit, offset = number(request, "limit", PODS, MOST_PODS), number(request, "offset", 0, MOST_OFFSET)
        tier, name = request.query.get("tier", [""])[-1], request.query.get("pod", [""])[-1]
        if tier and tier not in _TIERS:
            raise BadRequest(f"unknown tier={tier!r}; choose {', '.join(_TIERS)}")
        queue = self._context.queue
        counts = {**queue.pending_counts(), Tier.IN_FLIGHT.value: queue.in_flight_count}
        shown = islice(self._known(tier, name), offset, offset + limit)
        pods = [self._pod(QueueEntry.of(of, queued)) for of, queued in shown]
        more = 0 if name else max(0, (counts[tier] if tier else sum(counts.values())) - offset - limit)
        return {"counts": counts, **_rest(offset, limit, more), "pods": pods}

    def cache(self, request: ServerRequest) -> dict[str, Any]:
        """Return the nodes with their pods, the assumed and the nominated pods; `?node=` for one node."""
        limit, offset = number(request, "limit", NODES, MOST_NODES), number(request, "offset", 0, MOST_OFFSET)
        context, name = self._context, request.query.get("node", [""])[-1]
        one = context.state.info(name) if name else None
        rows = context.state.rows if not name else [one] if one else []
        return {
            "counts": self._counts(),
            # An attempt of a large group may have paused between two pods: the nodes are as it has changed them.
            **({"dryRun": True} if context.state.is_dry_run else {}),
            **_rest(offset, limit, max(0, len(rows) - offset - limit)),
            "nodes": [_node(row) for row in rows[offset : offset + limit]],
            "assumed": list(self._assumed()),
            "nominated": list(self._nominated()),
        }

    async def log(self) -> None:
        """Log the first page of both, one line per entry."""
        context = self._context
        _log.info("Dump of the queue", **context.queue.pending_counts())
        pods = [self._pod(QueueEntry.of(tier, queued)) for tier, queued in islice(context.queue.known(), MOST_PODS)]
        await _log_all("Pod in the queue", pods)
        _log.info("Dump of the cache", **self._counts(), dryRun=context.state.is_dry_run)
        await _log_all("Node in the cache", [_node(row) for row in context.state.rows[:MOST_NODES]])
        await _log_all("Pod assumed", list(self._assumed()))
        await _log_all("Pod nominated", list(self._nominated()))
        _log.info("End of the dump; see /debug/queue and /debug/cache for more", pods=len(pods))

    def _counts(self) -> dict[str, int]:
        """Return the totals; assumed and nominated pods beyond the first MOST_PODS are only counted."""
        context = self._context
        counts = {"nodes": len(context.state), "pods": len(context.pods), "assumed": len(context.assumed)}
        return counts | {"nominated": len(context.queue.nominator)}

    def _known(self, tier: str, name: str) -> Iterator[tuple[Tier, QueuedPod]]:
        known = self._context.queue.known()
        if name:
            uid = self._context.handle.pods.uid_of_key(name)
            return (entry for entry in known if entry[1].pod.uid == uid)
        if tier:
            wanted = _TIERS[tier]
            return (entry for entry in known if entry[0] is wanted)
        return known

    def _pod(self, entry: QueueEntry) -> dict[str, Any]:
        dump: dict[str, Any] = {"pod": entry.pod, "tier": entry.tier.value, "priority": entry.priority}
        dump |= {"attempts": entry.attempts, "waitingSeconds": round(self._clock.now() - entry.since, 3)}
        if entry.until is not None:
            dump["backoffUntil"] = rfc3339(self._clock.wall() + entry.until - self._clock.now())
        if entry.rejectors:
            dump["rejectedBy"] = entry.rejectors
        if entry.gating_plugin:
            dump["gatedBy"] = entry.gating_plugin
        node = self._context.queue.nominator.node_of.get(entry.uid)
        if node:
            dump["nominatedNode"] = node
        return dump | {"uid": entry.uid}

    def _assumed(self) -> Iterator[dict[str, Any]]:
        for assumed in islice(self._context.assumed.values(), MOST_PODS):
            yield {"pod": assumed.pod.key, "node": assumed.node_name, "stage": assumed.stage.name.lower()}

    def _nominated(self) -> Iterator[dict[str, Any]]:
        nominator = self._context.queue.nominator
        pods = ((pod.key, node) for node in nominator.nodes() for pod in nominator.pods_on(node))
        return ({"pod": pod, "node": node} for pod, node in islice(pods, MOST_PODS))


def _rest(offset: int, limit: int, more: int) -> dict[str, Any]:
    """Return a page's offset, the number of further entries, and the query for the next page."""
    rest: dict[str, Any] = {"offset": offset, "more": more}
    return rest | ({"next": f"?offset={offset + limit}&limit={limit}"} if more else {})


def _node(row: NodeRow) -> dict[str, Any]:
    dump: dict[str, Any] = {"node": row.name, "allocatable": _readable(row.allocatable, row.allowed_pods)}
    dump["requested"] = _readable(row.requested, len(row.pods))
    if row.unschedulable:
        dump["unschedulable"] = True
    return dump | {"pods": [pod.key for pod in row.pods.values()]}


def _readable(amounts: Mapping[str, int], pods: int) -> dict[str, Any]:
    return {name: f"{n}m" if name == CPU else n for name, n in amounts.items()} | {"pods": pods}


async def _log_all(message: str, entries: list[dict[str, Any]]) -> None:
    for i, entry in enumerate(entries):
        if i % _AT_ONCE == 0:
            await asyncio.sleep(0)
        _log.info(message, **entry)
