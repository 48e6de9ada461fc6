"""A small API server in memory with pods only, and the fates of its pods: for the task backend's tests.

Deletion, finalizers, preconditions and watches follow the API server's rules. The fate of each pod is test data.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend import PodsSnapshot, PodState
from pyscheduler.backend.task import Json
from pyscheduler.backend.template import ATTEMPT, FINALIZER, SUBMISSION, TASK_ID
from tests.properties.pod_stream import bookmark, gone, pod_event, pod_list
from tests.tasks.fake_objects import FakeObjects

EPOCH = 1_800_000_000.0
GRACE = 30


class Fate(enum.StrEnum):
    """The fate of a pod."""

    SUCCEED = "succeed"
    SUCCEED_AND_GO = "succeed, and be deleted at once"
    FAIL = "fail"
    OOM = "oom"
    EVICT = "evict"
    PREEMPT = "preempt"
    DELETE = "delete"
    DELETE_PENDING = "delete while pending"
    STRIP = "vanish"
    LOSE = "lose its node"
    UNLABEL = "lose its label, then succeed"
    REFUSED_BY_NODE = "refused by its node"
    IMAGE = "no image"
    UNSCHEDULABLE = "unschedulable"


class Cluster:
    """Pods by name, and the history of their changes since `floor`. `check` is called after every change."""

    def __init__(self, rng: random.Random, fate: Callable[[str, int], Fate]) -> None:
        self.pods: dict[str, PodState] = {}
        self.version = 100
        self.floor = 0
        self.created: Counter[str] = Counter()
        """Number of pods created for each task."""
        self.created_uids: defaultdict[str, set[str]] = defaultdict(set)
        self.vanished: set[str] = set()
        """Uids of pods that were deleted without the backend, despite its finalizer."""
        self.refusals: Counter[str] = Counter()
        """Number of creates still to be rejected because of a quota, by task."""
        self.objects = FakeObjects()
        """Leases."""
        self.pod_quota: int | None = None
        """Most pods that have not ended."""
        self.lives: set[asyncio.Task[None]] = set()
        self._history: list[tuple[str, PodState]] = []
        self._changed = asyncio.Event()
        self._rng, self._fate = rng, fate

    @staticmethod
    def now() -> float:
        return EPOCH + asyncio.get_running_loop().time()

    # -- the API -------------------------------------------------------------------------------------------------

    def create(self, body: Json) -> PodState:
        meta = body["metadata"]
        name, task = meta["name"], meta["annotations"][TASK_ID]
        if self.refusals[task] > 0:
            self.refusals[task] -= 1
            raise ApiError(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: small')
        if self.pod_quota is not None and sum(not pod.terminal for pod in self.pods.values()) >= self.pod_quota:
            raise ApiError(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: small')
        if name in self.pods:
            raise ApiError(409, "AlreadyExists", f"pods {name} already exists")
        attempt = int(meta["annotations"][ATTEMPT])
        has_finalizer = FINALIZER in meta.get("finalizers", ())
        uid = f"uid-{self.version + 1}"
        pod = PodState(
            name=name,
            uid=uid,
            version=0,
            task=task,
            attempt=attempt,
            submission=meta["annotations"].get(SUBMISSION, ""),
            has_finalizer=has_finalizer,
            created_at=self.now(),
        )
        self.created[task] += 1
        self.created_uids[task].add(uid)
        self.put(pod)
        self._begin(self._live(name, uid, self._fate(task, attempt)))
        return self.pods[name]

    def find(self, name: str, uid: str = "") -> PodState:
        pod = self.pods.get(name)
        if pod is None:
            raise ApiError(404, "NotFound", f"pods {name} not found")
        if uid and pod.uid != uid:
            raise ApiError(409, "Conflict", f"pods {name} is another one")
        return pod

    def release(self, name: str, uid: str) -> None:
        self.put(msgspec.structs.replace(self.find(name, uid), has_finalizer=False))

    def label(self, name: str, uid: str, *, labelled: bool) -> None:
        """Add or remove the backend's label. A pod without it disappears from lists, and from watches as if deleted."""
        pod = msgspec.structs.replace(self.find(name, uid), labelled=labelled)
        self.put(pod)
        if not labelled:  # watches deliver the state before the change, at its resourceVersion
            before = msgspec.structs.replace(pod, labelled=True, version=self.version)
            self._history.append(("DELETED", before))
            self._changed.set()

    def delete(self, name: str, uid: str = "", grace: int | None = None) -> None:
        pod = self.find(name, uid)
        seconds = 0 if pod.terminal or not pod.node else GRACE if grace is None else grace
        seconds = min(seconds, pod.grace) if pod.deleting else seconds
        is_first = not pod.deleting
        pod = msgspec.structs.replace(pod, deleting=True, grace=seconds, delete_at=self.now() + seconds)
        self.put(pod)
        if is_first and seconds and pod.reason != "lost":
            self._begin(self._stop(name, pod.uid))

    def all(self) -> PodsSnapshot:
        pods = {name: pod for name, pod in self.pods.items() if pod.labelled}
        return PodsSnapshot(pods=pods, complete=True, resource_version=self.version)

    def listed(self) -> bytes:
        """Return the list of all pods."""
        return pod_list(self.all().pods.values(), self.version)

    def check_version(self, version: int) -> None:
        """Raise ApiError 410 if the changes after this version are no longer in the history."""
        if version < self.floor:
            raise ApiError(410, "Expired", "too old resource version")

    async def watch(self, version: int, seconds: float) -> AsyncGenerator[bytes, None]:
        """Yield the changes after a version, one by one or in batches; after `seconds` a bookmark, then the end."""
        end = asyncio.get_running_loop().time() + seconds
        while True:
            if version < self.floor:
                yield gone()
                return
            events = [event for event in self._history if event[1].version > version]
            if events:
                events = events[: self._rng.randint(1, len(events))]
                version = events[-1][1].version
                yield b"".join(pod_event(kind, pod) for kind, pod in events)
                continue
            self._changed = self._changed if not self._changed.is_set() else asyncio.Event()
            try:
                async with asyncio.timeout_at(end):
                    await self._changed.wait()
            except TimeoutError:
                yield bookmark(self.version)
                return

    def compact(self) -> None:
        """Drop the history, so that watches that are behind get 410."""
        self.floor = self.version
        self._history = []

    # -- pod lifecycle -------------------------------------------------------------------------------------------

    def put(self, pod: PodState) -> None:
        """Store a pod, or remove it if it is deleted and has no finalizer."""
        self.version += 1
        pod = msgspec.structs.replace(pod, version=self.version)
        gone = pod.deleting and pod.grace == 0 and not pod.has_finalizer
        if gone:
            self.pods.pop(pod.name, None)
        else:
            self.pods[pod.name] = pod
        if pod.labelled:
            self._history.append(("DELETED" if gone else "MODIFIED", pod))
        self._changed.set()
        self.check()

    def check(self) -> None:
        """Replaced by tests."""

    def live(self, task: str) -> list[PodState]:
        """Return the task's pods that may have a running container."""
        return [pod for pod in self.pods.values() if pod.task == task and not pod.stopped]

    def _begin(self, life: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(life)
        self.lives.add(task)
        task.add_done_callback(self.lives.discard)

    async def _pause(self, longest: float) -> None:
        await asyncio.sleep(self._rng.uniform(0.0, longest))

    def _change(self, name: str, uid: str, **changes: object) -> bool:
        pod = self.pods.get(name)
        if pod is None or pod.uid != uid or pod.stopped:
            return False
        self.put(msgspec.structs.replace(pod, **changes))
        return True

    async def _live(self, name: str, uid: str, fate: Fate) -> None:
        await self._pause(3.0)
        if fate is Fate.UNSCHEDULABLE:
            self._change(name, uid, unschedulable="0/3 nodes are available")
            return
        if fate is Fate.DELETE_PENDING:
            if self._change(name, uid):
                self.delete(name, uid)
            return
        if not self._change(name, uid, node="node-1"):
            return
        await self._pause(2.0)
        if fate is Fate.REFUSED_BY_NODE:
            self._change(name, uid, phase="Failed", reason="OutOfcpu", started_at=self.now())
        elif fate is Fate.IMAGE:
            self._change(name, uid, waiting="ErrImagePull", started_at=self.now())
        elif self._change(name, uid, phase="Running", started_at=self.now()):
            await self._pause(20.0)
            if fate is Fate.UNLABEL and self._change(name, uid):
                self.label(name, uid, labelled=False)
                await self._pause(20.0)
            self._end_pod(name, uid, fate)

    def _end_pod(self, name: str, uid: str, fate: Fate) -> None:
        """End a running pod according to its fate, unless something else has ended it."""
        at = {"finished_at": self.now()}
        if fate in (Fate.SUCCEED, Fate.SUCCEED_AND_GO, Fate.UNLABEL):
            done = self._change(name, uid, phase="Succeeded", exit_code=0, exit_reason="Completed", **at)
            if done and fate is Fate.SUCCEED_AND_GO:
                self.delete(name, uid)
        elif fate is Fate.FAIL:
            self._change(name, uid, phase="Failed", exit_code=3, exit_reason="Error", **at)
        elif fate is Fate.OOM:
            self._change(name, uid, phase="Failed", exit_code=137, exit_reason="OOMKilled", **at)
        elif fate is Fate.LOSE:
            if self._change(name, uid, disruption="DeletionByTaintManager", reason="lost"):
                self.delete(name, uid)
        elif fate is Fate.STRIP:
            if self._change(name, uid, has_finalizer=False):
                self.vanished.add(uid)
                self.delete(name, uid, 0)
        else:
            reasons = {Fate.EVICT: "EvictionByEvictionAPI", Fate.PREEMPT: "PreemptionByScheduler"}
            if self._change(name, uid, disruption=reasons.get(fate, "")):
                self.delete(name, uid)

    async def _stop(self, name: str, uid: str) -> None:
        """Act as the kubelet: stop the containers, then complete the deletion."""
        await self._pause(5.0)
        self._change(name, uid, phase="Failed", exit_code=143, exit_reason="Error", finished_at=self.now())
        await self._pause(1.0)
        pod = self.pods.get(name)
        if pod is not None and pod.uid == uid and pod.grace:
            self.delete(name, uid, 0)
