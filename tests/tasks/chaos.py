"""The chaos run: a burst of tasks, whose backend is killed over and over while its watches are dropped.

    python -m tests.tasks.chaos --tasks 5000 --kills 10 --control-plane real --out build/tasks-chaos

The API server, hollow nodes and this scheduler run the pods; the backend is a process of its own, and reaches the API
server through a proxy that makes trouble. It fails if the audit finds anything. Figures are written either way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from pyscheduler.backend.state.request_queue import RequestQueue
from tests.e2e.client import ApiError
from tests.e2e.plane import EMBEDDED, REAL, Plane, new_namespace
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import hollow_nodes
from tests.faults.fault_actions import GONE, cut_after, gone_event, refuses, says
from tests.faults.proxy import FaultProxy
from tests.faults.request_matchers import ProxiedRequest, watches
from tests.faults.scheduler_under_test import proxied
from tests.faults.soak import cluster
from tests.faults.waiting import until
from tests.tasks import platform
from tests.tasks.audit import Evidence, ReportedUpdates, may_snatch
from tests.tasks.kinds import tasks
from tests.tasks.rights import kubeconfig_through
from tests.tasks.witness import SeenPod, Witness, caught_up, witnessing

ROOT = Path(__file__).parents[2]
SCHEDULER = "tasks"
DROPS = (1.0, 4.0)
"""Seconds between two moments at which the backend's watches are dropped, from and to."""
SNATCHERS = 4
PROGRESS_EVERY = 10.0
"""Seconds between two lines that say how far it is."""


@dataclass(frozen=True)
class ChaosSettings:
    """What is to be done to it."""

    tasks: int = 5_000
    kills: int = 10
    expired: int = 1
    """How often a watch is answered with 410, and how often one ends with 410 as an event."""
    at_once: int = 600
    """Pods that the budget allows."""
    nodes: int = 40
    qps: float = 400.0
    patience: float = 1_500.0
    """Seconds for the whole."""
    seed: int = 1


class CountingProxy:
    """Counts what goes through a proxy to the API server, by verb and kind."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.calls: Counter[str] = Counter()
        self._ask = proxy.opened
        proxy.opened = self._counted  # type: ignore[method-assign]  # every call passes there

    @asynccontextmanager
    async def _counted(self, asked: ProxiedRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        self.calls[verb_of(asked)] += 1
        async with self._ask(asked) as answer:
            yield answer


def verb_of(asked: ProxiedRequest) -> str:
    """As in a Role: `create pods`, `watch pods`."""
    parts = asked.path.strip("/").split("/")
    after = parts[parts.index("namespaces") + 2 :] if "namespaces" in parts else parts[-1:]
    if asked.method == "GET":
        verb = "watch" if asked.is_watch else "get" if len(after) > 1 else "list"
    else:
        verb = {"POST": "create", "PUT": "update"}.get(asked.method, asked.method.lower())
    return f"{verb} {after[0]}"


@dataclass
class Chaos:
    """One run."""

    plane: Plane
    course: ChaosSettings
    namespace: str
    folder: Path
    proxy: FaultProxy
    witness: Witness
    chance: random.Random
    tell: Callable[[str], None]
    snatched: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    dropped: int = 0
    expired: int = 0

    async def run(self) -> None:
        """Until the owner has seen all of its tasks settle. AssertionError if it fails, or takes too long."""
        work = (self._drop(), self._expire(), self._snatch(), self._tell_progress())
        helpers = [asyncio.create_task(each) for each in work]
        lives = asyncio.create_task(self._lives())
        try:
            async with asyncio.timeout(self.course.patience):
                while not lives.done():
                    ended = [helper for helper in helpers if helper.done()]
                    for helper in ended:
                        helper.result()
                    going = [helper for helper in helpers if helper not in ended]
                    await asyncio.wait([lives, *going], return_when=asyncio.FIRST_COMPLETED)
            lives.result()
        finally:
            for task in (lives, *helpers):
                task.cancel()
            await asyncio.gather(lives, *helpers, return_exceptions=True)
        assert self.expired == 2 * self.course.expired, f"only {self.expired} watches were told that they are too old"

    async def _lives(self) -> None:
        """One process after another, each killed at a random moment, until the last one ends by itself."""
        moments = sorted(self.chance.uniform(0.02, 0.95) for _ in range(self.course.kills))
        for moment in moments:
            process = await self._start()
            await self._reached(moment * self.course.tasks, process)
            await asyncio.sleep(self.chance.uniform(0.0, 1.0))
            assert process.returncode is None, f"the owner ended before it was killed:\n{self._log()}"
            process.kill()
            await process.wait()
            await asyncio.sleep(self.chance.choice((0.0, 0.5, 2.0)))
        process = await self._start()
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
        assert code == 0, f"the owner ended with {code}:\n{self._log()}"

    async def _start(self) -> asyncio.subprocess.Process:
        self.starts += 1
        wishes = {
            "folder": str(self.folder),
            "namespace": self.namespace,
            "kubeconfig": str(self.folder / "kubeconfig"),
            "tasks": self.course.tasks,
            "pool": self.namespace,
            "scheduler": SCHEDULER,
            "atOnce": self.course.at_once,
            "qps": self.course.qps,
            "pollSeconds": 20.0,
        }
        program = os.environ.get("TASKS_PLATFORM", platform.__name__)
        with (self.folder / "owner.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", program, json.dumps(wishes), cwd=ROOT, stdout=log, stderr=log
            )

    async def _reached(self, ended: float, process: asyncio.subprocess.Process) -> None:
        async def reached() -> bool:
            return self.witness.ended >= ended or process.returncode is not None

        await until(reached, self.course.patience)

    async def _drop(self) -> None:
        """Cut watches under way, and let some that are new live for a few lines only."""
        while True:
            await asyncio.sleep(self.chance.uniform(*DROPS))
            self.dropped += self.proxy.cut(watches("pods"))
            if self.chance.random() < 0.3:
                with self.proxy.rule(watches("pods"), cut_after(10), 1):
                    await asyncio.sleep(0.5)

    async def _expire(self) -> None:
        """Tell watches that their place is too old: as a status, and as an event."""

        async def begun() -> bool:
            return self.witness.ended >= self.course.tasks * 0.2

        await until(begun, self.course.patience)
        for fault in (refuses(GONE), says(gone_event(), after=5)) * self.course.expired:
            with self.proxy.rule(watches("pods"), fault, 1) as rule:
                self.proxy.cut(watches("pods"))
                await rule.met(1, seconds=60.0)
                self.expired += 1

    async def _snatch(self) -> None:
        """Delete pods of some tasks while they run, as somebody else."""
        while True:
            victims = [pod for pod in list(self.witness.pods.values()) if may_snatch(pod, self.snatched)]
            for pod in victims[:SNATCHERS]:
                self.snatched[pod.task] += 1
                await self._delete(pod)
            await asyncio.sleep(0.2)

    async def _delete(self, pod: SeenPod) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod.name}"
        try:
            await self.plane.api.delete(path, {"preconditions": {"uid": pod.uid}})
        except ApiError as problem:
            if problem.status not in (404, 409):
                raise

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY)
            ended, alive = self.witness.ended, self.witness.alive
            far = f"{ended:,} pods of {self.course.tasks:,} tasks have ended, {alive:,} are there"
            killed = max(0, self.starts - 1)
            self.tell(f"{far}; backend killed {killed} times, {self.dropped} watches dropped")

    def _log(self) -> str:
        return (self.folder / "owner.log").read_text(errors="replace")[-4000:]

    async def evidence(self) -> Evidence:
        """What there is to be audited, once the owner is through."""
        await caught_up(self.plane.api, self.namespace, self.witness)
        with RequestQueue(self.folder / platform.STATE) as box:
            records = {id: msgspec.to_builtins(record) for id, record in box.read_state().records.items()}
        left = await self.plane.api.list(f"/api/v1/namespaces/{self.namespace}/pods")
        return Evidence(
            ids=[spec.id for spec in tasks(self.course.tasks, self.namespace, SCHEDULER)],
            witness=self.witness,
            records=records,
            told=ReportedUpdates.read(self.folder / platform.JOURNAL),
            snatched=self.snatched,
            most=self.course.at_once,
            summary=json.loads((self.folder / platform.SUMMARY).read_text()),
            left=[pod["metadata"]["name"] for pod in left if not pod["metadata"].get("deletionTimestamp")],
        )


async def chaos(
    plane: Plane, namespace: str, course: ChaosSettings, folder: Path, tell: Callable[[str], None] = lambda _: None
) -> tuple[list[str], dict[str, Any]]:
    """Do it in a namespace that is empty; what is wrong in the end, and figures. `tell` hears how far it is."""
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(proxied(plane))
        counting = CountingProxy(proxy)
        await stack.enter_async_context(hollow_nodes(plane, namespace, course.nodes, cpu="16"))
        await stack.enter_async_context(scheduler(plane, Configured(SCHEDULER), folder))
        witness = await stack.enter_async_context(witnessing(plane.api, namespace))
        (folder / "kubeconfig").write_text(await kubeconfig_through(proxy, plane, namespace))
        run = Chaos(plane, course, namespace, folder, proxy, witness, random.Random(course.seed), tell)
        began = time.monotonic()
        await run.run()
        seconds = time.monotonic() - began
        evidence = await run.evidence()
        wrong = evidence.problems()
        (folder / "wrong.json").write_text(json.dumps(evidence.stories(wrong), indent=1))
        return wrong, _figures(run, counting, seconds)


def _figures(run: Chaos, counting: CountingProxy, seconds: float) -> dict[str, Any]:
    count = run.course.tasks
    return {
        "tasks": count,
        "seconds": round(seconds, 1),
        "tasksPerSecond": round(count / seconds, 1),
        "processes": run.starts,
        "killed": run.starts - 1,
        "watchesDropped": run.dropped,
        "expired": run.expired,
        "podsSeen": len(run.witness.pods),
        "podsDeletedByOthers": run.snatched.total(),
        "mostPodsAtOnce": run.witness.most_alive,
        "callsPerTask": {verb: round(n / count, 3) for verb, n in sorted(counting.calls.items())},
        "allCallsPerTask": round(counting.calls.total() / count, 2),
    }


async def _main(asked: argparse.Namespace, folder: Path) -> list[str]:
    course = ChaosSettings(asked.tasks, asked.kills, at_once=asked.at_once, seed=asked.seed)
    async with cluster(asked.control_plane) as plane:
        await new_namespace(plane.api, "chaos")
        wrong, figures = await chaos(plane, "chaos", course, folder, _say)
    written = {"target": asked.control_plane, "seed": asked.seed, **figures, "wrong": wrong}
    (asked.out / "chaos.json").write_text(json.dumps(written, indent=2) + "\n")
    sys.stdout.write(json.dumps(written, indent=2) + "\n")
    return wrong


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """From the command line. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=ChaosSettings.tasks)
    parser.add_argument("--kills", type=int, default=ChaosSettings.kills)
    parser.add_argument("--at-once", type=int, default=ChaosSettings.at_once)
    parser.add_argument("--control-plane", choices=(EMBEDDED, REAL), default=EMBEDDED)
    parser.add_argument("--seed", type=int, default=ChaosSettings.seed)
    parser.add_argument("--out", type=Path, default=Path("build/tasks-chaos"))
    asked = parser.parse_args()
    folder: Path = asked.out / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each connection that the proxy has cut
    try:
        wrong = asyncio.run(_main(asked, folder))
    except AssertionError as problem:
        wrong = [str(problem)]
    for line in wrong[:50]:
        _say(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
