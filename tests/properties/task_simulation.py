"""The task backend on virtual time with an unreliable cluster: calls are late, lost or rejected, and the backend
crashes.

Each run of the backend has its own cluster connection and state handle. At a crash both stop working between two
awaits: nothing new takes effect, and operations in flight have either happened or not.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Self
from urllib.parse import parse_qs, urlsplit

import msgspec

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.backend import (
    BackendSettings,
    BackendStopped,
    FixedBudget,
    InsufficientResources,
    KubernetesTaskBackend,
    PodsSnapshot,
    PodState,
    Resources,
    TaskFinal,
    TaskPhase,
    TaskRecord,
    TaskSpec,
    UnknownTask,
)
from pyscheduler.backend.state import SavedState, StateIdentity, StateProblem
from pyscheduler.backend.state.memory import MemoryState
from pyscheduler.backend.task import Json
from pyscheduler.clock import SystemClock
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.outage import watch_outage_log
from pyscheduler.kube.paths import PODS
from tests.properties.pod_stream import chunks, manifest
from tests.properties.task_cluster import Cluster, Fate

SETTINGS = BackendSettings(concurrency=4, poll_seconds=40.0, image_seconds=30.0, lost_seconds=20.0, place_seconds=3.0)
LIMIT = Resources({"cpu": 4000, "pods": 50})


class Task(msgspec.Struct, frozen=True):
    """The fate of each attempt at a task in turn; the last one repeats."""

    fates: tuple[Fate, ...]
    killed_after: float | None = None
    updated_after: float | None = None
    refused: int = 0


class TaskScenario(msgspec.Struct, frozen=True):
    """The parameters of an example; everything else follows from `seed`."""

    tasks: tuple[Task, ...]
    lives: tuple[float, ...] = ()
    """Seconds until the backend crashes, run by run. The last run continues until all tasks are settled."""
    trouble: float = 0.0
    """Probability that a call or commit fails, before or after it took effect."""
    compactions: float = 0.0
    """Probability that the API server drops its history, drawn every few seconds."""
    seed: int = 0


class CrashSwitch:
    """Crash switch of one run; blown when the run is over."""

    def __init__(self, rng: random.Random, trouble: float) -> None:
        self.blown = False
        self.rng, self.trouble = rng, trouble

    async def travel(self, longest: float = 0.5) -> None:
        """Let time pass; block for ever after the crash."""
        await asyncio.sleep(self.rng.uniform(0.0, longest))
        if self.blown:
            await asyncio.get_running_loop().create_future()

    def fails(self) -> bool:
        return self.rng.random() < self.trouble


class ClusterConnection:
    """The `PodsApi` of one run, with the streams of its watch."""

    namespace = "default"
    deadlines = Deadlines()

    def __init__(self, cluster: Cluster, crash_switch: CrashSwitch) -> None:
        self._cluster, self._crash_switch = cluster, crash_switch
        self.calls: Counter[str] = Counter()
        self.watch_outages = watch_outage_log(SystemClock())

    @property
    def lister_watcher(self) -> Self:
        return self

    async def create_pod(self, body: Json) -> PodState:
        await self._send("create")
        pod = self._cluster.create(body)
        await self._receive()
        return pod

    async def get_pod(self, name: str) -> PodState:
        await self._send("get")
        pod = self._cluster.find(name)
        await self._receive()
        return pod

    async def release_pod(self, name: str, uid: str) -> None:
        await self._send("patch")
        self._cluster.release(name, uid)
        await self._receive()

    async def label_pod(self, name: str, uid: str, labels: dict[str, str]) -> None:
        await self._send("patch")
        self._cluster.label(name, uid, labelled=bool(labels))
        await self._receive()

    async def delete_pod(self, name: str, uid: str, grace: int | None = None) -> None:
        await self._send("delete")
        self._cluster.delete(name, uid, grace)
        await self._receive()

    async def list_pods(self, selector: str) -> PodsSnapshot:
        await self._send("list")
        found = self._cluster.all()
        await self._receive(3.0)
        return found

    @asynccontextmanager
    async def reading(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:  # an interface
        await self._send("list")
        async with aclosing(self._chunks(self._cluster.listed(), 3.0)) as arriving:
            yield arriving

    @asynccontextmanager
    async def watching(self, path: str, seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._send("watch")
        version = int(parse_qs(urlsplit(path).query)["resourceVersion"][0])
        self._cluster.check_version(version)
        async with aclosing(self._watch(version, seconds)) as arriving:
            yield arriving

    async def _watch(self, version: int, seconds: float) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._cluster.watch(version, seconds)) as batches:
            async for batch in batches:
                async with aclosing(self._chunks(batch, 2.0)) as arriving:
                    async for chunk in arriving:
                        yield chunk

    async def _chunks(self, body: bytes, longest: float) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of a response; it may break off before each."""
        for chunk in chunks(body, self._crash_switch.rng):
            await self._receive(longest)
            yield chunk

    async def namespace_uid(self, name: str) -> str:
        return f"uid-{name}"

    async def get_object(self, kind: ResourceKind, name: str) -> Json:
        if kind == PODS:
            body = manifest(self._cluster.find(name))
            return {**body, "spec": {**body["spec"], "containers": [{"name": "task", "image": "x"}]}}
        return await self._cluster.objects.client().get_object(kind, name)

    async def replace_object(self, kind: ResourceKind, body: Json) -> Json:
        return await self._cluster.objects.client().replace_object(kind, body)

    async def create_object(self, kind: ResourceKind, body: Json) -> Json:
        return await self._cluster.objects.client().create_object(kind, body)

    async def delete_object(self, kind: ResourceKind, name: str) -> None:
        raise NotImplementedError

    async def list_objects(self, kind: ResourceKind, selector: str = "") -> list[Json]:
        raise NotImplementedError

    async def _send(self, verb: str) -> None:
        self.calls[verb] += 1
        await self._crash_switch.travel()
        if self._crash_switch.fails():
            raise ApiError(self._crash_switch.rng.choice((0, 429, 500, 503)), "Trouble", "did not get there")

    async def _receive(self, longest: float = 0.5) -> None:
        await self._crash_switch.travel(longest)
        if self._crash_switch.fails():
            raise ApiError(0, "NoAnswer", "the answer was lost")


class DurableState:
    """The state that survives crashes; checks that no record changes in a forbidden way."""

    def __init__(self) -> None:
        self.stored = MemoryState()
        self.recorded_pods: set[str] = set()
        """Uids of the pods that were ever recorded."""

    def store(self, changed: Sequence[TaskRecord], place: str | None, forgotten: Sequence[str]) -> None:
        for record in changed:
            before = self.stored.records.get(record.id)
            if before is None:
                continue
            assert record.attempt >= before.attempt, f"{record.id} went back to attempt {record.attempt}"
            assert record.version >= before.version
            if before.final:
                assert record.unreleased == ({} if record.cleaned else before.unreleased)
                rest = {"acknowledged": before.acknowledged, "cleaned": before.cleaned, "unreleased": before.unreleased}
                same = msgspec.structs.replace(record, **rest)
                assert same == before, f"{record.id} left {before.phase}: {record}"
        self.stored.records.update({record.id: record for record in changed})
        self.recorded_pods |= {record.pod_uid for record in changed}
        self.stored.resource_version = place or self.stored.resource_version


class StateHandle:
    """The `StateStore` of one run."""

    def __init__(self, durable_state: DurableState, crash_switch: CrashSwitch) -> None:
        self._durable_state, self._crash_switch = durable_state, crash_switch

    async def open(self) -> SavedState:
        stored = self._durable_state.stored
        return SavedState(dict(stored.records), stored.resource_version, stored.identity)

    async def bind(self, identity: StateIdentity) -> None:
        self._durable_state.stored.identity = identity

    async def check(self) -> None:
        return None

    async def commit(
        self, changed: Sequence[TaskRecord], place: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        await self._crash_switch.travel(0.2)
        if self._crash_switch.fails():
            some = [record for record in changed if self._crash_switch.rng.random() < 0.5]
            self._durable_state.store(some, None, ())
            raise StateProblem("the disk is full")
        self._durable_state.store(changed, place, forgotten)
        await self._crash_switch.travel(0.2)

    async def close(self) -> None:
        return None


class Backend(KubernetesTaskBackend):
    """A backend that checks its accounting after every change."""

    def check_accounting(self) -> None:
        guard = self._process(allow_stopped=True).table
        recomputed = guard.recompute_allocated()
        assert not (guard.allocated - recomputed), (
            f"allocated are {guard.allocated}, according to the records {recomputed}"
        )
        assert not guard.allocated.missing(LIMIT), f"more is allocated than the limit: {guard.allocated}"


class TaskSimulation:
    """Play a scenario; `run` returns when every task is settled and all checks have passed."""

    def __init__(self, story: TaskScenario) -> None:
        self.story = story
        self.rng = random.Random(story.seed)
        self.cluster = Cluster(self.rng, self._fate)
        self.cluster.check = self._check  # type: ignore[method-assign]
        self.durable_state = DurableState()
        self.backend: Backend | None = None
        self.broken: list[str] = []
        self.delivered: dict[str, set[TaskPhase]] = {}
        self.specs = {f"t{i}": self._spec(f"t{i}") for i in range(len(story.tasks))}
        self.cluster.refusals.update({f"t{i}": task.refused for i, task in enumerate(story.tasks)})

    @staticmethod
    def _spec(task: str) -> TaskSpec:
        return TaskSpec(id=task, image="x", cpu="1", pending_seconds=200.0)

    def _fate(self, task: str, attempt: int) -> Fate:
        fates = self.story.tasks[int(task[1:])].fates
        return fates[min(attempt, len(fates)) - 1]

    async def run(self) -> None:
        compacting = asyncio.create_task(self._compact())
        for seconds in self.story.lives:
            await self._live(seconds)
        await self._live(None)
        compacting.cancel()
        for life in list(self.cluster.lives):
            life.cancel()
        await asyncio.gather(compacting, *self.cluster.lives, return_exceptions=True)
        self._check_end()

    async def _live(self, seconds: float | None) -> None:
        """Run the backend until it crashes after `seconds`; None: until all tasks are settled, without a crash."""
        before = asyncio.all_tasks()
        crash_switch = CrashSwitch(self.rng, self.story.trouble)
        self.backend = Backend(
            ClusterConnection(self.cluster, crash_switch),
            StateHandle(self.durable_state, crash_switch),
            FixedBudget(LIMIT),
            settings=SETTINGS,
            on_update=self._handle_update,
            clock=Cluster.now,
            rng=self.rng,
        )
        await self.backend.__aenter__()
        owner = asyncio.create_task(self._act_as_owner(self.backend))
        try:
            async with asyncio.timeout(seconds if seconds is not None else 3000.0):
                await owner
                await self.backend.wait_until_settled()
            async with asyncio.timeout(200.0):
                while not all(record.acknowledged for record in self.backend.tasks().values()):  # noqa: ASYNC110  # virtual
                    await asyncio.sleep(1.0)
        except TimeoutError:
            assert seconds is not None, f"not settled: {self.backend.tasks()}, {self.cluster.pods}"
        except BackendStopped as stopped:
            raise AssertionError(str(stopped)) from None
        crash_switch.blown = True
        leftovers = asyncio.all_tasks() - before - self.cluster.lives
        for task in leftovers:
            task.cancel()
        await asyncio.gather(*leftovers, return_exceptions=True)
        assert not self.broken, self.broken[0]

    async def _act_as_owner(self, backend: KubernetesTaskBackend) -> None:
        """Act as the owner: submit all tasks in every run, and kill or update some."""
        with suppress(BackendStopped):
            changes = [
                asyncio.create_task(self._change_task(backend, i, task)) for i, task in enumerate(self.story.tasks)
            ]
            try:
                while len(backend.tasks()) < len(self.specs):
                    with suppress(StateProblem):  # the disk was full for seconds
                        await backend.submit_all(s for name, s in self.specs.items() if name not in backend.tasks())
                await asyncio.gather(*changes)
            finally:
                for change in changes:
                    change.cancel()

    async def _change_task(self, backend: KubernetesTaskBackend, number: int, task: Task) -> None:
        name, loop = f"t{number}", asyncio.get_running_loop()
        for after, kind in sorted((at, k) for at, k in ((task.killed_after, "kill"), (task.updated_after, "up")) if at):
            await asyncio.sleep(max(0.0, after - loop.time()))
            while name not in backend.tasks():  # noqa: ASYNC110  # virtual
                await asyncio.sleep(0.5)
            with suppress(UnknownTask, TaskFinal, InsufficientResources, StateProblem):
                if kind == "kill":
                    await backend.kill(name)
                else:
                    await backend.update(msgspec.structs.replace(self.specs[name], cpu="500m", owner={"by": "us"}))

    async def _handle_update(self, record: TaskRecord) -> None:
        durable = self.durable_state.stored.records[record.id]
        assert durable.version >= record.version, "delivered before it was durable"
        if self.rng.random() < self.story.trouble:
            raise ConnectionError("the owner is away")
        if record.final:
            self.delivered.setdefault(record.id, set()).add(record.phase)

    async def _compact(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(1.0, 10.0))
            if self.rng.random() < self.story.compactions:
                self.cluster.compact()

    def _check(self) -> None:
        """Check the invariants; failures are stored and raised at the end, because the caller must continue."""
        try:
            self._check_now()
        except AssertionError as error:
            self.broken.append(str(error))

    def _check_now(self) -> None:
        for task in self.specs:
            living = self.cluster.live(task)
            assert len(living) <= 1, f"two pods of one task run: {living}"
            assert not living or task in self.durable_state.stored.records, (
                f"a pod of a task that is not durable: {living}"
            )
        if self.backend is not None:
            with suppress(BackendStopped, AttributeError):
                self.backend.check_accounting()

    def _check_end(self) -> None:
        assert self.backend is not None
        assert not self.cluster.pods, f"pods are left: {self.cluster.pods}"
        assert not self.backend.allocated_resources(), f"resources are allocated: {self.backend.allocated_resources()}"
        for name, record in self.durable_state.stored.records.items():
            assert record.settled
            assert record.acknowledged, f"the update of {name} was not delivered"
            assert self.delivered.get(name) == {record.phase}, (
                f"{name} is {record.phase}, delivered were {self.delivered.get(name)}"
            )
            self._check_fate(self.story.tasks[int(name[1:])], record)

    def _check_fate(self, task: Task, record: TaskRecord) -> None:
        """Check the phase and the number of attempts, which depend on the fates unless the task is killed.

        An update during the last attempt adds further attempts.
        """
        ends = expected(task.fates, record.spec.retry.infrastructure, updates=task.updated_after is not None)
        if task.killed_after is None:
            assert (record.phase, record.attempt) in ends, f"{record}"
        most = max(attempt for _, attempt in ends)
        assert record.attempt <= most
        # A pod that vanishes before the answer to its create has arrived was never there for the backend.
        unseen = self.cluster.vanished - self.durable_state.recorded_pods
        assert len(self.cluster.created_uids[record.id] - unseen) <= most, "more pods than attempts"


RETRIED = {
    Fate.EVICT,
    Fate.PREEMPT,
    Fate.DELETE,
    Fate.DELETE_PENDING,
    Fate.STRIP,
    Fate.LOSE,
    Fate.REFUSED_BY_NODE,
}


def expected(fates: Sequence[Fate], retries: int, *, updates: bool) -> list[tuple[TaskPhase, int]]:
    """Return the possible ends of a task with these fates, each with the number of attempts.

    With `updates` the first end may begin another attempt instead.
    """
    ends: list[tuple[TaskPhase, int]] = []
    attempt, failures = 1, 0
    while len(ends) <= updates:
        fate = fates[min(attempt, len(fates)) - 1]
        failures += fate in RETRIED
        if fate in (Fate.SUCCEED, Fate.SUCCEED_AND_GO, Fate.UNLABEL):
            ends.append((TaskPhase.SUCCEEDED, attempt))
        elif fate not in RETRIED or failures > retries:
            ends.append((TaskPhase.FAILED, attempt))
        attempt += 1
    return ends
