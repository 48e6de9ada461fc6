"""Sees every pod of a namespace from before the first one to the end, straight from the API server.

Nothing of the backend is asked, and no code of it is used: what a pod is and whose follows from its labels, annotations
and phases as they stand in the API. A witness that missed something says so.
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
    """One pod, by UID, and what became of it."""

    uid: str
    name: str
    task: str
    attempt: str
    cpu: str
    phases: list[str] = field(default_factory=list)
    """Each that it was seen in, in order."""
    deleting: bool = False
    stopped: bool = False
    """Whether it is deleted and nothing of it runs: it had no node yet, or its kubelet is through with it."""
    gone: bool = False
    story: list[Json] = field(default_factory=list)
    """What each event said of its end, for people who ask what happened."""

    @property
    def ran(self) -> bool:
        """Whether its work was begun; one that ended well was, even if nobody saw it run."""
        return "Running" in self.phases or "Succeeded" in self.phases

    @property
    def alive(self) -> bool:
        """Whether it takes room: it is there, and has neither ended nor been stopped."""
        return not self.gone and not self.stopped and self.phases[-1] not in ENDS


@dataclass
class Witness:
    """All that was seen."""

    pods: dict[str, SeenPod] = field(default_factory=dict)
    of_task: dict[str, list[SeenPod]] = field(default_factory=lambda: defaultdict(list))
    together: list[str] = field(default_factory=list)
    """Where two pods of one task were alive at once."""
    alive: int = 0
    most_alive: int = 0
    ended: int = 0
    """Pods that have ended or gone."""
    blind: str = ""
    """Why something may have been missed, "" if nothing was."""
    place: str = ""

    def see(self, event: Json) -> None:
        """One event of the watch, in its order."""
        item = event["object"]
        self.place = item["metadata"]["resourceVersion"]
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
        # That a kubelet was told of its start before it was told of its deletion may still be reported after this.
        pod.stopped = pod.stopped or (pod.deleting and item["metadata"].get("deletionGracePeriodSeconds") == 0)
        pod.gone = event["type"] == "DELETED"
        pod.story.append(_told(event))
        self._count(pod, before)

    def _new(self, item: Json) -> SeenPod:
        metadata = item["metadata"]
        notes = metadata.get("annotations") or {}
        requests = item["spec"]["containers"][0].get("resources", {}).get("requests", {})
        made = SeenPod(
            metadata["uid"], metadata["name"], notes.get(TASK, ""), notes.get(ATTEMPT, ""), requests.get("cpu", "")
        )
        self.pods[made.uid] = made
        self.of_task[made.task].append(made)
        return made

    def _count(self, pod: SeenPod, before: bool) -> None:
        self.alive += pod.alive - before
        self.ended += before and not pod.alive
        self.most_alive = max(self.most_alive, self.alive)
        if pod.alive and not before:
            others = [other.name for other in self.of_task[pod.task] if other.alive and other is not pod]
            self.together += [f"task {pod.task}: pods {other} and {pod.name} were there at once" for other in others]


@asynccontextmanager
async def witnessing(api: ApiClient, namespace: str) -> AsyncIterator[Witness]:
    """A witness of a namespace that has no pods yet, for as long as the block lasts."""
    witness, path = Witness(), f"/api/v1/namespaces/{namespace}/pods"
    listed = await api.get(path)
    assert not listed["items"], "there are pods already that nobody has seen come"
    witness.place = listed["metadata"]["resourceVersion"]

    async def watch_once() -> None:
        query = {"resourceVersion": witness.place, "allowWatchBookmarks": "true"}
        async for event in api.watch(path, **query):
            if event["type"] == "ERROR":
                raise ApiError("WATCH", path, event["object"].get("code", 0), str(event["object"]))
            witness.see(event)

    async def watch() -> None:
        while not witness.blind:
            try:
                await watch_once()
            except ApiError as problem:
                if problem.status == _GONE:
                    witness.blind = f"the witness has missed what came after {witness.place}: {problem}"
            except (OSError, aiohttp.ClientError):
                pass  # it goes on where it was
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    try:
        yield witness
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def caught_up(api: ApiClient, namespace: str, witness: Witness, seconds: float = 30.0) -> None:
    """Wait until the witness has seen everything that is true by now, by a pod that is made and deleted for it."""
    path, name = f"/api/v1/namespaces/{namespace}/pods", "last-word"
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _NOTHING}
    made = await api.create(path, body)
    await api.delete(f"{path}/{name}", gracePeriodSeconds=0)
    uid = made["metadata"]["uid"]

    async def seen() -> bool:
        return bool(witness.blind) or (uid in witness.pods and witness.pods[uid].gone)

    await until(seen, seconds)
    witness.pods.pop(uid, None)
    witness.of_task.pop("", None)


_NOTHING: Json = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "pause:1"}]}


def _told(event: Json) -> Json:
    metadata, status = event["object"]["metadata"], event["object"].get("status", {})
    kept = ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers")
    states = [container.get("state") for container in status.get("containerStatuses", ())]
    told = {name: metadata[name] for name in kept if name in metadata}
    return {"event": event["type"], **told, "phase": status.get("phase"), "states": states}
