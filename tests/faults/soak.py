"""The soak: a cluster that churns for long, with faults all the while, and what the scheduler is like in the end.

    python -m tests.faults.soak --minutes 20 --control-plane real --out build/soak

It fails if the check of the cluster finds anything, or if the scheduler's memory, tasks, connections or queue have not
come back to what they were. Figures and a plot are written either way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyscheduler.embedded.cluster import EmbeddedCluster
from tests.controlplane.cluster import ControlPlane
from tests.e2e.client import ApiClient, ApiError
from tests.e2e.plane import EMBEDDED, REAL, Plane, new_namespace
from tests.faults.churn import Churn
from tests.faults.fault_actions import (
    GONE,
    INTERNAL,
    TOO_MANY,
    breaks_off,
    cut_after,
    gone_event,
    hangs_up,
    loses_the_answer,
    refuses,
    says,
    says_500_though_done,
    shuffled,
    stalls,
    twice,
)
from tests.faults.fault_namespace import FaultNamespace, staged
from tests.faults.plot import Line, svg
from tests.faults.proxy import Rule
from tests.faults.request_matchers import (
    ProxiedRequest,
    anything,
    bindings,
    calls,
    evictions,
    lists,
    pod_statuses,
    watches,
)
from tests.faults.scheduler_under_test import (
    MEMORY_SLACK,
    PATIENCE,
    ResourceUsage,
    SchedulerUnderTest,
    configuration,
    proxied,
    started,
)

NAMESPACE = "soak"
SAMPLES = 1.0
"""Seconds between two looks at the scheduler."""
QUIET = (0.5, 2.5)
"""Seconds between two faults, from and to."""
LASTS = 3.0
"""Seconds of a fault that does not end by itself."""


@dataclass
class SoakSamples:
    """What was seen, moment by moment."""

    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    tasks: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)

    def lines(self) -> list[Line]:
        return [
            Line("memory", "MiB", [value / 2**20 for value in self.memory]),
            Line("pods in the queue or on their way", "", self.waiting),
            Line("tasks", "", self.tasks),
            Line("pods bound so far", "", self.bound),
        ]

    def told(self) -> str:
        """How far it is."""
        memory, minutes = self.memory[-1] / 2**20, self.seconds[-1] / 60
        return f"minute {minutes:.0f}: {self.bound[-1]:.0f} pods bound, {self.waiting[-1]:.0f} wait, {memory:.0f} MiB"


@dataclass
class Soak:
    """One run."""

    world: FaultNamespace
    subject: SchedulerUnderTest
    chance: random.Random
    course: SoakSamples = field(default_factory=SoakSamples)

    async def run(self, seconds: float) -> tuple[ResourceUsage, ResourceUsage, Churn]:
        """What the scheduler took at rest before it and after it. AssertionError if the cluster is not well then."""
        churn = Churn(self.world, self.chance)
        await churn.begin()
        await self.world.many_bound(1)
        await self.world.well()
        await self.world.rewatched()
        before = await self.subject.level()
        tasks = [asyncio.create_task(work) for work in (churn.run(), self._trouble(), self._watch())]
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        await self._swept(churn)
        await churn.end()
        await self.world.empty()
        return before, await self._at_rest(before), churn

    async def _swept(self, churn: Churn) -> None:
        """See the cluster well, once what was bound to nodes that flapped is cleared away."""
        for node in self.world.hollow.names:
            if not node.endswith("flapping"):
                await self.world.plane.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
        for left in reversed(range(5)):
            await churn.sweep()
            try:
                return await self.world.well(20.0)
            except AssertionError:
                if not left:
                    raise

    async def _at_rest(self, before: ResourceUsage) -> ResourceUsage:
        """What it takes when nothing is left to be done, or after a minute."""
        for _ in range(120):
            found = await self.subject.level()
            if not grown(before, found):
                break
            await asyncio.sleep(0.5)
        return found

    async def _trouble(self) -> None:
        while True:
            await asyncio.sleep(self.chance.uniform(*QUIET))
            await self.chance.choice((self._rule, self._rule, self._rule, self._cut, self._outage))()

    async def _rule(self) -> None:
        rule: Callable[[], AbstractContextManager[Rule]] = self.chance.choice(self._rules())
        with rule():
            self.world.proxy.cut(watches("pods"))
            await asyncio.sleep(LASTS)
        self.world.proxy.cut(watches())

    async def _cut(self) -> None:
        self.world.proxy.cut(self.chance.choice((watches(), calls, anything)))
        self.world.proxy.faults += 1

    async def _outage(self) -> None:
        self.world.proxy.faults += 1
        async with self.world.proxy.refusing():
            await asyncio.sleep(self.chance.uniform(0.2, 2.0))

    def _rules(self) -> list[Callable[[], AbstractContextManager[Rule]]]:
        proxy, pods = self.world.proxy, watches("pods")

        def some_writes(asked: ProxiedRequest) -> bool:
            return (bindings(asked) or pod_statuses(asked) or evictions(asked)) and self.chance.random() < 0.3

        on_writes = (
            refuses(TOO_MANY, 1),
            refuses(INTERNAL),
            hangs_up,
            loses_the_answer,
            breaks_off,
            says_500_though_done,
            stalls(PATIENCE + 0.5, after=True),
        )
        return [
            *(lambda fault=fault: proxy.rule(some_writes, fault) for fault in on_writes),
            lambda: proxy.rule(pods, refuses(GONE), 1),
            lambda: proxy.rule(pods, says(gone_event(), after=5), 2),
            lambda: proxy.rule(pods, cut_after(10), 5),
            lambda: proxy.rule(pods, twice),
            lambda: proxy.rule(pods, shuffled),
            lambda: proxy.rule(lists("pods"), refuses(INTERNAL), 2),
        ]

    async def _watch(self) -> None:
        began, course = time.monotonic(), self.course
        while True:
            try:
                level = await self.subject.level()
            except ApiError:  # whom it does not know it cannot look up while the API server is away
                continue
            finally:
                await asyncio.sleep(SAMPLES)
            course.seconds.append(time.monotonic() - began)
            course.memory.append(level.memory)
            course.waiting.append(level.waiting)
            course.tasks.append(level.tasks)
            course.bound.append(self.world.proxy.bound.total())
            if course.seconds[-1] // 60 > course.seconds[-2:][0] // 60:
                _say(f"{course.told()}, {self.world.proxy.faults} faults")


def grown(before: ResourceUsage, after: ResourceUsage) -> list[str]:
    """What has leaked."""
    found = []
    if after.memory > before.memory + MEMORY_SLACK:
        found.append(f"memory: {after.memory / 2**20:.1f} MiB, before {before.memory / 2**20:.1f}")
    for name in ("tasks", "connections"):
        if getattr(after, name) > getattr(before, name):
            found.append(f"{name}: {getattr(after, name)}, before {getattr(before, name)}")
    if after.waiting:
        found.append(f"pods in the queue or on their way: {after.waiting}, and there are none")
    return found


@asynccontextmanager
async def cluster(target: str) -> AsyncIterator[Plane]:
    """An empty cluster for this run."""
    if target == REAL:
        async with ControlPlane() as real:
            yield Plane(REAL, real.kubeconfig, real.api, real)
        return
    async with EmbeddedCluster(nodes=0) as embedded, ApiClient(embedded.kubeconfig) as api:
        yield Plane(EMBEDDED, embedded.kubeconfig, api, embedded=embedded)


async def soak(target: str, seconds: float, seed: int, out: Path) -> list[str]:
    """Run it, write what was seen, and return what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        async with cluster(target) as plane, proxied(plane) as proxy:
            await new_namespace(plane.api, NAMESPACE)
            async with (
                started(plane, configuration(), Path(folder), proxy) as running,
                staged(plane, NAMESPACE, proxy) as world,
            ):
                run = Soak(world, SchedulerUnderTest(running, plane.api, proxy), random.Random(seed))
                try:
                    before, after, churn = await run.run(seconds)
                finally:
                    (out / "scheduler.log").write_text(running.log.read_text())
                    written = f"{seconds / 60:g} minutes on the {target} cluster, seed {seed}"
                    (out / "soak.svg").write_text(svg(written, run.course.seconds, run.course.lines()))
                figures = _figures(run, before, after, churn)
                (out / "soak.json").write_text(json.dumps({"target": target, "seed": seed, **figures}, indent=2) + "\n")
                sys.stdout.write(json.dumps(figures, indent=2) + "\n")
                return grown(before, after)


def _figures(run: Soak, before: ResourceUsage, after: ResourceUsage, churn: Churn) -> dict[str, Any]:
    proxy, course = run.world.proxy, run.course
    return {
        "seconds": round(max(course.seconds, default=0)),
        "podsBound": proxy.bound.total(),
        "faults": proxy.faults,
        "done": dict(churn.done),
        "longestQueue": max(course.waiting, default=0),
        "memoryMiB": {
            "before": round(before.memory / 2**20, 1),
            "middle": round(statistics.median(course.memory or [0]) / 2**20, 1),
            "most": round(max(course.memory, default=0) / 2**20, 1),
            "after": round(after.memory / 2**20, 1),
        },
        "before": before._asdict(),
        "after": after._asdict(),
    }


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """From the command line. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--control-plane", choices=(EMBEDDED, REAL), default=EMBEDDED)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/soak"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    try:
        wrong = asyncio.run(soak(asked.control_plane, asked.minutes * 60, asked.seed, asked.out))
    except AssertionError as problem:
        wrong = [str(problem)]
    for line in wrong:
        _say(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
