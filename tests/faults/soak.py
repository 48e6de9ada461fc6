"""Soak test: a cluster under random load and faults for a long time, then a check of cluster and scheduler.

    python -m tests.faults.soak --minutes 20 --control-plane real --out build/soak

It fails if the cluster check reports a problem, or if the scheduler's memory, tasks, connections or queue do not return
to their initial level. Figures and a plot, as SVG and as a page, are written in any case.
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

from bench.plot import Curve, line_plot
from pyscheduler.embedded.cluster import EmbeddedCluster
from tests.controlplane.cluster import ControlPlane
from tests.e2e.client import ApiClient, ApiError
from tests.e2e.plane import EMBEDDED, REAL, Plane, new_namespace
from tests.faults.churn import Churn
from tests.faults.fault_actions import (
    GONE,
    INTERNAL,
    TOO_MANY,
    cut_after,
    duplicated,
    gone_event,
    lose_response,
    reject,
    reordered,
    reset_before_request,
    reset_mid_response,
    respond_500_after_success,
    send_lines,
    stall,
)
from tests.faults.fault_namespace import FaultNamespace, fault_namespace
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
    CALL_TIMEOUT,
    MEMORY_SLACK,
    ResourceUsage,
    SchedulerUnderTest,
    configuration,
    run_scheduler,
    start_proxy,
)

NAMESPACE = "soak"
SAMPLES = 1.0
"""Interval between two samples in seconds."""
FAULT_INTERVAL = (0.5, 2.5)
"""Least and most seconds between two faults."""
FAULT_SECONDS = 3.0
"""Duration of a fault rule."""


@dataclass
class SoakSamples:
    """Samples over time."""

    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    tasks: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)

    def curves(self) -> list[Curve]:
        return [
            Curve("memory", "MiB", [value / 2**20 for value in self.memory]),
            Curve("pods in the queue or being bound", "", self.waiting),
            Curve("tasks", "", self.tasks),
            Curve("pods bound so far", "", self.bound),
        ]

    def progress(self) -> str:
        """Return a progress line."""
        memory, minutes = self.memory[-1] / 2**20, self.seconds[-1] / 60
        return f"minute {minutes:.0f}: {self.bound[-1]:.0f} pods bound, {self.waiting[-1]:.0f} wait, {memory:.0f} MiB"


@dataclass
class Soak:
    """One soak run."""

    ns: FaultNamespace
    subject: SchedulerUnderTest
    rng: random.Random
    samples: SoakSamples = field(default_factory=SoakSamples)

    async def run(self, seconds: float) -> tuple[ResourceUsage, ResourceUsage, Churn]:
        """Return the idle resource usage before and after. AssertionError if the cluster is inconsistent."""
        churn = Churn(self.ns, self.rng)
        await churn.begin()
        await self.ns.wait_for_bound(1)
        await self.ns.wait_until_consistent()
        await self.ns.restart_watches()
        before = await self.subject.level()
        tasks = [asyncio.create_task(work) for work in (churn.run(), self._inject_faults(), self._sample())]
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        await self._clean_up(churn)
        await churn.end()
        await self.ns.delete_pods()
        return before, await self._idle_usage(before), churn

    async def _clean_up(self, churn: Churn) -> None:
        """Uncordon the nodes, delete pods on deleted nodes, and wait until the cluster is consistent."""
        for node in self.ns.hollow.names:
            if not node.endswith("flapping"):
                await self.ns.plane.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
        for attempts_left in reversed(range(5)):
            await churn.sweep()
            try:
                return await self.ns.wait_until_consistent(20.0)
            except AssertionError:
                if not attempts_left:
                    raise

    async def _idle_usage(self, before: ResourceUsage) -> ResourceUsage:
        """Return the resource usage once it is back at `before`, or after a minute."""
        for _ in range(120):
            current = await self.subject.level()
            if not grown(before, current):
                break
            await asyncio.sleep(0.5)
        return current

    async def _inject_faults(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(*FAULT_INTERVAL))
            await self.rng.choice((self._rule, self._rule, self._rule, self._cut, self._outage))()

    async def _rule(self) -> None:
        rule: Callable[[], AbstractContextManager[Rule]] = self.rng.choice(self._rules())
        with rule():
            self.ns.proxy.cut(watches("pods"))
            await asyncio.sleep(FAULT_SECONDS)
        self.ns.proxy.cut(watches())

    async def _cut(self) -> None:
        self.ns.proxy.cut(self.rng.choice((watches(), calls, anything)))
        self.ns.proxy.faults += 1

    async def _outage(self) -> None:
        self.ns.proxy.faults += 1
        async with self.ns.proxy.refusing():
            await asyncio.sleep(self.rng.uniform(0.2, 2.0))

    def _rules(self) -> list[Callable[[], AbstractContextManager[Rule]]]:
        proxy, pods = self.ns.proxy, watches("pods")

        def some_writes(request: ProxiedRequest) -> bool:
            return (bindings(request) or pod_statuses(request) or evictions(request)) and self.rng.random() < 0.3

        on_writes = (
            reject(TOO_MANY, 1),
            reject(INTERNAL),
            reset_before_request,
            lose_response,
            reset_mid_response,
            respond_500_after_success,
            stall(CALL_TIMEOUT + 0.5, after=True),
        )
        return [
            *(lambda fault=fault: proxy.rule(some_writes, fault) for fault in on_writes),
            lambda: proxy.rule(pods, reject(GONE), 1),
            lambda: proxy.rule(pods, send_lines(gone_event(), after=5), 2),
            lambda: proxy.rule(pods, cut_after(10), 5),
            lambda: proxy.rule(pods, duplicated),
            lambda: proxy.rule(pods, reordered),
            lambda: proxy.rule(lists("pods"), reject(INTERNAL), 2),
        ]

    async def _sample(self) -> None:
        began, samples = time.monotonic(), self.samples
        while True:
            try:
                level = await self.subject.level()
            except ApiError:  # without the API server the scheduler cannot authorize the request for its metrics
                continue
            finally:
                await asyncio.sleep(SAMPLES)
            samples.seconds.append(time.monotonic() - began)
            samples.memory.append(level.memory)
            samples.waiting.append(level.waiting)
            samples.tasks.append(level.tasks)
            samples.bound.append(self.ns.proxy.bound.total())
            if samples.seconds[-1] // 60 > samples.seconds[-2:][0] // 60:
                _report(f"{samples.progress()}, {self.ns.proxy.faults} faults")


def grown(before: ResourceUsage, after: ResourceUsage) -> list[str]:
    """Return the resources that have grown, as messages."""
    leaks = []
    if after.memory > before.memory + MEMORY_SLACK:
        leaks.append(f"memory: {after.memory / 2**20:.1f} MiB, before {before.memory / 2**20:.1f}")
    for name in ("tasks", "connections"):
        if getattr(after, name) > getattr(before, name):
            leaks.append(f"{name}: {getattr(after, name)}, before {getattr(before, name)}")
    if after.waiting:
        leaks.append(f"pods in the queue or being bound: {after.waiting}, but the namespace has no pods")
    return leaks


@asynccontextmanager
async def cluster(target: str) -> AsyncIterator[Plane]:
    """Start an empty cluster."""
    if target == REAL:
        async with ControlPlane() as real:
            yield Plane(REAL, real.kubeconfig, real.api, real)
        return
    async with EmbeddedCluster(nodes=0) as embedded, ApiClient(embedded.kubeconfig) as api:
        yield Plane(EMBEDDED, embedded.kubeconfig, api, embedded=embedded)


async def soak(target: str, seconds: float, seed: int, out: Path) -> list[str]:
    """Run the soak test, write its results, and return the problems."""
    with tempfile.TemporaryDirectory() as folder:
        async with cluster(target) as plane, start_proxy(plane) as proxy:
            await new_namespace(plane.api, NAMESPACE)
            async with (
                run_scheduler(plane, configuration(), Path(folder), proxy) as running,
                fault_namespace(plane, NAMESPACE, proxy) as ns,
            ):
                run = Soak(ns, SchedulerUnderTest(running, plane.api, proxy), random.Random(seed))
                try:
                    before, after, churn = await run.run(seconds)
                finally:
                    (out / "scheduler.log").write_text(running.log.read_text())
                    title = f"{seconds / 60:g} minutes on the {target} cluster, seed {seed}"
                    plot = line_plot(title, run.samples.seconds, run.samples.curves())
                    plot.write(out / "soak.svg", out / "soak.html")
                figures = _figures(run, before, after, churn)
                (out / "soak.json").write_text(json.dumps({"target": target, "seed": seed, **figures}, indent=2) + "\n")
                sys.stdout.write(json.dumps(figures, indent=2) + "\n")
                return grown(before, after)


def _figures(run: Soak, before: ResourceUsage, after: ResourceUsage, churn: Churn) -> dict[str, Any]:
    proxy, samples = run.ns.proxy, run.samples
    return {
        "seconds": round(max(samples.seconds, default=0)),
        "podsBound": proxy.bound.total(),
        "faults": proxy.faults,
        "done": dict(churn.done),
        "longestQueue": max(samples.waiting, default=0),
        "memoryMiB": {
            "before": round(before.memory / 2**20, 1),
            "middle": round(statistics.median(samples.memory or [0]) / 2**20, 1),
            "most": round(max(samples.memory, default=0) / 2**20, 1),
            "after": round(after.memory / 2**20, 1),
        },
        "before": before._asdict(),
        "after": after._asdict(),
    }


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--control-plane", choices=(EMBEDDED, REAL), default=EMBEDDED)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/soak"))
    request = parser.parse_args()
    request.out.mkdir(parents=True, exist_ok=True)
    try:
        wrong = asyncio.run(soak(request.control_plane, request.minutes * 60, request.seed, request.out))
    except AssertionError as problem:
        wrong = [str(problem)]
    for line in wrong:
        _report(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
