"""Plugin for every extension point that misbehaves once for each pod with the label `fault`.

The label has the point and the fault: `filter.raises`. A pod with the label `parked` waits in Permit until a pod with
the label `opens` arrives.
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
PERMIT_TIMEOUT = 900.0


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
    """Misbehaves as the label `fault` has it; otherwise it accepts all pods and scores 0."""

    name = "Faulty"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._done: set[str] = set()

    def pre_enqueue(self, pod: Pod) -> Any:
        return self._respond("pre_enqueue", pod)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Any:
        return self._respond("pre_filter", pod)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return self._respond("filter", pod)

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Any:
        return self._respond("post_filter", pod, Rejection("Faulty cannot help"))

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Any:
        return self._respond("pre_score", pod)

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return self._respond("score", pod, 0)

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return self._respond("reserve", pod)

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        self._respond("unreserve", pod)

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        if "opens" in pod.labels:
            for waiting in self.handle.waiting_pods:
                waiting.allow(self.name)
        return self._respond("permit", pod, Wait(PERMIT_TIMEOUT) if "parked" in pod.labels else None)

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: Any) -> Any:
        return await self._respond_async("pre_bind", pod)

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: Any) -> Any:
        return await self._respond_async("bind", pod, SKIP)

    async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: Any) -> None:
        await self._respond_async("post_bind", pod)

    def _respond(self, point: str, pod: Pod, normal: Any = None) -> Any:
        """Misbehave if the pod's label has this point, for the first time; else return `normal`."""
        where, _, how = pod.labels.get("fault", "").partition(".")
        if where != point or pod.uid in self._done:
            return normal
        self._done.add(pod.uid)
        if how == "raises":
            raise RuntimeError(f"{point} fails for {pod.name}")
        if how == "cancels":
            raise asyncio.CancelledError
        while how == "blocks":
            time.sleep(0.1)
        return NONSENSE.get(point, object())

    async def _respond_async(self, point: str, pod: Pod, normal: Any = None) -> Any:
        if pod.labels.get("fault") == f"{point}.hangs":
            await asyncio.Event().wait()
        return self._respond(point, pod, normal)
