"""A plugin at every extension point that misbehaves for the pods which ask for it, once for each of them.

The label `fault` says where and how: `filter.raises`. The label `parked` keeps a pod waiting in Permit until one comes
with the label `opens`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from pyscheduler.api import (
    SKIP,
    BindPlugin,
    Cycle,
    Diagnosis,
    FilterPlugin,
    Handle,
    NodeInfo,
    NodeTable,
    PermitPlugin,
    Pod,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Rejection,
    ReservePlugin,
    ScorePlugin,
    Wait,
)

NONSENSE: dict[str, Any] = {"score": 10**30, "permit": "later", "pre_filter": "all", "bind": 7, "pre_bind": 7}
FOR_EVER = 900.0


class Faulty(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """Serves every point, and has nothing to say where nobody asks it to misbehave."""

    name = "Faulty"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._done: set[str] = set()

    def pre_enqueue(self, pod: Pod) -> Any:
        return self._said("pre_enqueue", pod)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Any:
        return self._said("pre_filter", pod)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return self._said("filter", pod)

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Any:
        return self._said("post_filter", pod, Rejection("Faulty has no idea either"))

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Any:
        return self._said("pre_score", pod)

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return self._said("score", pod, 0)

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return self._said("reserve", pod)

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        self._said("unreserve", pod)

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        if "opens" in pod.labels:
            for waiting in self.handle.waiting_pods():
                waiting.allow(self.name)
        return self._said("permit", pod, Wait(FOR_EVER) if "parked" in pod.labels else None)

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: Any) -> Any:
        return await self._acted("pre_bind", pod)

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: Any) -> Any:
        return await self._acted("bind", pod, SKIP)

    async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: Any) -> None:
        await self._acted("post_bind", pod)

    def _said(self, point: str, pod: Pod, sense: Any = None) -> Any:
        """`sense`, unless the pod asks for something else."""
        where, _, how = pod.labels.get("fault", "").partition(".")
        if where != point or pod.uid in self._done:
            return sense
        self._done.add(pod.uid)
        if how == "raises":
            raise RuntimeError(f"{point} has had enough of {pod.name}")
        if how == "cancels":
            raise asyncio.CancelledError
        while how == "blocks":
            time.sleep(0.1)
        return NONSENSE.get(point, object())

    async def _acted(self, point: str, pod: Pod, sense: Any = None) -> Any:
        if pod.labels.get("fault") == f"{point}.hangs":
            await asyncio.Event().wait()
        return self._said(point, pod, sense)
