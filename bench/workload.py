"""What is scheduled: pods of one shape in a namespace of their own, made beforehand and cleared away afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bench import proc
from tests.e2e.client import ApiClient, ApiError, Json

NAMESPACE = "bench"
NAMESPACES = "/api/v1/namespaces"
PODS = f"{NAMESPACES}/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
_CREATORS = 32
_QUIET_CORES = 0.15
_QUIET_SECONDS = 1.0
_PATIENCE = 20.0
_BUSY = (429, 500, 503, 504)


async def prepare(api: ApiClient) -> None:
    """Make the namespace, and wait for the service account without which no pod can be made in it."""
    await api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await api.until(f"{NAMESPACES}/{NAMESPACE}/serviceaccounts/default", lambda found: "metadata" in found)


def pod(name: str, scheduler_name: str) -> Json:
    """A pod of scheduler_perf's size."""
    requests = {"cpu": "100m", "memory": "500Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "bench"}},
        "spec": {
            "schedulerName": scheduler_name,
            "containers": [{"name": "pause", "image": "pause", "resources": {"requests": requests}}],
        },
    }


async def create_pods(api: ApiClient, count: int, scheduler_name: str) -> None:
    """Make `count` pending pods."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await api.create(PODS, pod(f"pod-{number:06d}", scheduler_name))

    async with asyncio.TaskGroup() as group:
        for _ in range(_CREATORS):
            group.create_task(worker())


async def clear(api: ApiClient) -> None:
    """Delete the pods and their Events, and wait until they are gone."""
    for path in (PODS, EVENTS):
        while await count(api, path):
            try:
                await api.delete(path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
            except TimeoutError:
                continue  # thousands in one call may take longer than a call may; the rest goes with the next
            except ApiError as problem:
                if problem.status not in _BUSY:
                    raise


async def count(api: ApiClient, path: str) -> int:
    """How many objects the collection has, without fetching them."""
    page = await api.get(path, limit=1)
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


async def settle(pids: Iterable[int]) -> None:
    """Wait until these processes have worked off what came before, as far as they do within a while."""
    known = list(pids)
    deadline = proc.now() + _PATIENCE
    while proc.now() < deadline:
        before = sum(map(proc.cpu_seconds, known))
        await asyncio.sleep(_QUIET_SECONDS)
        if sum(map(proc.cpu_seconds, known)) - before < _QUIET_CORES * _QUIET_SECONDS:
            return
