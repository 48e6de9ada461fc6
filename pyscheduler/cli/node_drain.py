"""`pyscheduler nodes drain`: cordon nodes and evict their pods through the eviction API, as `kubectl drain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.api.counts import counted
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.node_actions import for_each
from pyscheduler.cli.node_selection import NodeSelection, nodes_of, select
from pyscheduler.clock import Clock
from pyscheduler.embedded.objects import Json, key_of, owners_of
from pyscheduler.kube.errors import is_not_found
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import NODES, PODS

RETRY_SECONDS: Final = 1.0
"""Time between two attempts to evict the pods that a budget protects."""
_MIRROR: Final = "kubernetes.io/config.mirror"
_TOO_MANY_REQUESTS: Final = 429
_SHOWN: Final = 3


class Drain:
    """Drains nodes, all at once; a PodDisruptionBudget makes it wait."""

    def __init__(self, client: ObjectClient, clock: Clock, *, timeout: float, force: bool) -> None:
        self._client, self._clock, self._timeout, self._force = client, clock, timeout, force
        self._protected: dict[tuple[str, str], str] = {}
        """Pods that a budget protects, with the message of the API server."""

    async def run(self, selection: NodeSelection) -> list[str]:
        """Return the lines to print. CommandProblem if pods without controller or protected ones are left."""
        selected = select(await nodes_of(self._client), selection, lambda node: not node["spec"].get("unschedulable"))
        names = [node["metadata"]["name"] for node in selected]
        pods = [pod for name in names for pod in await self._pods_on(name) if _is_to_be_evicted(pod)]
        self._check(pods)
        await for_each(names, lambda name: self._client.patch(NODES, ("", name), {"spec": {"unschedulable": True}}))
        evicted = await self._evict_all([key_of(pod) for pod in pods])
        return [f"node/{name} drained" for name in names] + [f"{counted(evicted, 'pod')} evicted"]

    async def _pods_on(self, node: str) -> list[Json]:
        listing = await self._client.list(PODS, field_selector=f"spec.nodeName={node}")
        return [msgspec.json.decode(raw) for raw in listing.items]

    def _check(self, pods: Sequence[Json]) -> None:
        bare = ["/".join(key_of(pod)) for pod in pods if not any(owner.get("controller") for owner in owners_of(pod))]
        if bare and not self._force:
            raise CommandProblem(f"no controller would replace {_some(bare)}; add --force to evict them all the same")

    async def _evict_all(self, pods: Sequence[tuple[str, str]]) -> int:
        deadline = self._clock.now() + self._timeout
        remaining = list(pods)
        while True:
            self._protected.clear()
            await for_each(remaining, self._evict)
            remaining = list(self._protected)
            if not remaining:
                return len(pods)
            if self._clock.now() >= deadline:
                reason = next(iter(self._protected.values()))
                shown = _some(["/".join(key) for key in remaining])
                raise CommandProblem(f"not evicted within {self._timeout:g} s: {shown}: {reason}")
            await self._clock.sleep(RETRY_SECONDS)

    async def _evict(self, key: tuple[str, str]) -> None:
        namespace, name = key
        eviction: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
        }
        try:
            await self._client.create(ResourceKind("", "v1", f"pods/{name}/eviction", "Eviction"), eviction)
        except ApiError as error:
            if error.status == _TOO_MANY_REQUESTS:
                self._protected[key] = str(error)
            elif not is_not_found(error):
                raise


def _is_to_be_evicted(pod: Json) -> bool:
    """Return False for pods that stay, as in `kubectl drain`: of DaemonSets, static, and those that have ended."""
    meta = pod["metadata"]
    of_daemon_set = any(owner.get("controller") and owner.get("kind") == "DaemonSet" for owner in owners_of(pod))
    is_static = _MIRROR in (meta.get("annotations") or {})
    has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not (of_daemon_set or is_static or has_ended or meta.get("deletionTimestamp"))


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
