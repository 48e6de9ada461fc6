"""Independent observer of all pods in a namespace, by its own watch of the API server.

It uses no code of the backend: the task of a pod and its state come from the pod's annotations and phase in the API.
If its watch may have missed an event, `blind` has the reason.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from tests.e2e.client import ApiClient, ApiError, Json
from tests.faults.waiting import until

TASK, ATTEMPT = "pyscheduler.io/task-id", "pyscheduler.io/task-attempt"
ENDS = ("Succeeded", "Failed")
_GONE = 410


@dataclass
class SeenPod:
    """History of one pod."""

    uid: str
    name: str
    task: str
    attempt: str
    cpu: str
    phases: list[str] = field(default_factory=list)
    """Phases in the order of observation."""
    deleting: bool = False
    stopped: bool = False
    """True if it is deleted and no container runs: it had no node, or its kubelet has stopped it."""
    gone: bool = False
    events: list[Json] = field(default_factory=list)
    """Fields of each event, for the report of a failed run."""

    @property
    def ran(self) -> bool:
        """True if its containers were started; a succeeded pod ran even if no event had the phase Running."""
        return "Running" in self.phases or "Succeeded" in self.phases

    @property
    def alive(self) -> bool:
        """True if it uses resources: it exists and has neither ended nor been stopped."""
        return not self.gone and not self.stopped and self.phases[-1] not in ENDS


@dataclass
class Witness:
    """Observed pods and counts."""

    pods: dict[str, SeenPod] = field(default_factory=dict)
    of_task: dict[str, list[SeenPod]] = field(default_factory=lambda: defaultdict(list))
    together: list[str] = field(default_factory=list)
    """Problems: pods of one task that were alive at the same time."""
    alive: int = 0
    most_alive: int = 0
    ended: int = 0
    """Number of pods that ended or were deleted."""
    blind: str = ""
    """Reason why events may have been missed, "" if none were."""
    resource_version: str = ""

    def handle_event(self, event: Json) -> None:
        """Handle the next event of the watch."""
        item = event["object"]
        self.resource_version = item["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        pod = self.pods.get(item["metadata"]["uid"])
        before = pod.alive if pod is not None else False
        if pod is None:
            pod = self._new(item)
        phase = item.get("status", {}).get("phase", "Pending")
        if not pod.phases or pod.phases[-1] != phase:
            pod.phases.append(phase)
        pod.deleting = pod.deleting or "deletionTimestamp" in item["metadata"]
        # A later event may still report a start that preceded the kubelet's handling of the deletion.
        pod.stopped = pod.stopped or (pod.deleting and item["metadata"].get("deletionGracePeriodSeconds") == 0)
        pod.gone = event["type"] == "DELETED"
        pod.events.append(_summary(event))
        self._count(pod, before)

    def _new(self, item: Json) -> SeenPod:
        metadata = item["metadata"]
        annotations = metadata.get("annotations") or {}
        requests = item["spec"]["containers"][0].get("resources", {}).get("requests", {})
        task, attempt = annotations.get(TASK, ""), annotations.get(ATTEMPT, "")
        pod = SeenPod(metadata["uid"], metadata["name"], task, attempt, requests.get("cpu", ""))
        self.pods[pod.uid] = pod
        self.of_task[pod.task].append(pod)
        return pod

    def _count(self, pod: SeenPod, before: bool) -> None:
        self.alive += pod.alive - before
        self.ended += before and not pod.alive
        self.most_alive = max(self.most_alive, self.alive)
        if pod.alive and not before:
            others = [other.name for other in self.of_task[pod.task] if other.alive and other is not pod]
            self.together += [f"task {pod.task}: pods {other} and {pod.name} were alive at once" for other in others]


@asynccontextmanager
async def witnessing(api: ApiClient, namespace: str) -> AsyncIterator[Witness]:
    """Watch the pods of a namespace, which must be empty, inside the block."""
    witness, path = Witness(), f"/api/v1/namespaces/{namespace}/pods"
    listed = await api.get(path)
    assert not listed["items"], "the namespace has pods before the watch begins"
    witness.resource_version = listed["metadata"]["resourceVersion"]

    async def watch_once() -> None:
        query = {"resourceVersion": witness.resource_version, "allowWatchBookmarks": "true"}
        async for event in api.watch(path, **query):
            if event["type"] == "ERROR":
                raise ApiError("WATCH", path, event["object"].get("code", 0), str(event["object"]))
            witness.handle_event(event)

    async def watch() -> None:
        while not witness.blind:
            try:
                await watch_once()
            except ApiError as problem:
                if problem.status == _GONE:
                    witness.blind = f"the witness missed events after {witness.resource_version}: {problem}"
            except (OSError, aiohttp.ClientError):
                pass  # resume at the last resourceVersion
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    try:
        yield witness
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def caught_up(api: ApiClient, namespace: str, witness: Witness, seconds: float = 30.0) -> None:
    """Wait until the witness has received all events so far, with a marker pod that is created and deleted."""
    path, name = f"/api/v1/namespaces/{namespace}/pods", "marker"
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _UNSCHEDULED}
    created = await api.create(path, body)
    await api.delete(f"{path}/{name}", gracePeriodSeconds=0)
    uid = created["metadata"]["uid"]

    async def seen() -> bool:
        return bool(witness.blind) or (uid in witness.pods and witness.pods[uid].gone)

    await until(seen, seconds)
    witness.pods.pop(uid, None)
    witness.of_task.pop("", None)


_UNSCHEDULED: Json = {"schedulerName": "none", "containers": [{"name": "main", "image": "pause:1"}]}


def _summary(event: Json) -> Json:
    metadata, status = event["object"]["metadata"], event["object"].get("status", {})
    names = ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers")
    states = [container.get("state") for container in status.get("containerStatuses", ())]
    fields = {name: metadata[name] for name in names if name in metadata}
    return {"event": event["type"], **fields, "phase": status.get("phase"), "states": states}
