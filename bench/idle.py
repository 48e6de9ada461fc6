"""CPU usage with thousands of unschedulable pods, first without events, then with a node that fits some of them.

Run `pyscheduler bench idle`. Pods of several templates select nodes by a label of their own, which no node has. After
one attempt of each, the scheduler's CPU is measured while only kubelets report. Then a node is added that fits all pods
of the first template: only those should be retried.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from bench import bulk, proc
from bench.bulk import BulkClient
from bench.compare import chosen, real_plane
from bench.contenders import CONTENDERS, Contender, Running, Site
from bench.manifests import INDEX, SCHEDULER, Batch, collection
from bench.opcodes import Json
from bench.quiesce import wait_until_idle
from bench.suite import SuiteError
from tests.controlplane.build import BuildError
from tests.controlplane.process import ProcessFailed
from tests.e2e.plane import Plane

SHAPE = "bench/shape"
NAMESPACE = "waiting"
_HELPER = "helper"
_ATTEMPTS = re.compile(r"^scheduler_schedule_attempts_total\{(.*)\} (\S+)$", re.MULTILINE)
_UNSCHEDULABLE = re.compile(r'^scheduler_pending_pods\{queue="unschedulable"\} (\S+)$', re.MULTILINE)
_POLL = 1.0
_AFTERWARDS = 5.0
"""Seconds to wait for superfluous attempts."""
_PATIENCE = 300.0


@dataclass(frozen=True)
class Size:
    """Size of the benchmark; `seconds` is the duration of each measurement."""

    nodes: int
    pods: int
    shapes: int
    seconds: float

    @property
    def fitting(self) -> int:
        """Number of pods that fit the last node."""
        return self.pods // self.shapes


@dataclass(frozen=True)
class IdleResult:
    """Result of one contender. Cores are CPU seconds per second, attempts those since the node was added."""

    contender: str
    settle_seconds: float
    idle_cores: float
    reporting_cores: float
    attempts: int
    bound: int


def node(name: str, labels: Json, pods: int = 110) -> Json:
    """Return a ready node."""
    status = {
        "capacity": {"cpu": "32", "memory": "256Gi", "pods": str(pods)},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def waiting(shape: int, count: int) -> Batch:
    """Return pods that select the nodes of a shape."""
    spec = {
        "schedulerName": SCHEDULER,
        "nodeSelector": {SHAPE: str(shape)},
        "containers": [{"name": "pause", "image": "pause", "resources": {"requests": {"cpu": "1m"}}}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{shape}-{INDEX}"}, "spec": spec}
    return Batch.of(collection("Pod", NAMESPACE), count, pod)


async def measure(plane: Plane, calls: BulkClient, contender: Contender, size: Size) -> IdleResult:
    """Run one contender with existing nodes. TimeoutError if it does not become idle."""
    name = contender.scheduler_name
    click.echo(f"{contender.name}: {size.pods:,} pods, then measuring for twice {size.seconds:g} s", err=True)
    batches = [waiting(shape, size.fitting).for_scheduler(name) for shape in range(size.shapes)]
    for batch in batches:
        await calls.create(batch)
    try:
        with tempfile.TemporaryDirectory(prefix="pyscheduler-bench-") as folder:
            async with contender.start(Site(plane), contender.scheduler_name, Path(folder)) as running:
                return await _measure_running(running, plane, calls, contender, size)
    finally:
        await calls.delete_each([f"{batch.path}/{name}" for batch in batches for name in batch.names()])
        await calls.delete_one(f"{collection('Node')}/{_HELPER}")


async def _measure_running(
    running: Running, plane: Plane, calls: BulkClient, contender: Contender, size: Size
) -> IdleResult:
    started = proc.now()
    await _until(running, _UNSCHEDULABLE, size.pods)
    settle_seconds = proc.now() - started
    # Wait until a condition and an Event are written for each pod.
    await wait_until_idle(
        [each.pid for each in plane.real.processes.values() if each.alive] if plane.real else [], _PATIENCE
    )
    idle = await _cores(running, asyncio.sleep(size.seconds))
    reporting = await _cores(running, _report(calls, size))
    before = await _attempts(running)
    await calls.create_one(collection("Node"), msgspec.json.encode(node(_HELPER, {SHAPE: "0"}, pods=size.fitting)))
    await _until(running, _UNSCHEDULABLE, size.pods - size.fitting)
    await asyncio.sleep(_AFTERWARDS)
    after = await _attempts(running)
    attempts = sum(after.values()) - sum(before.values())
    return IdleResult(contender.name, settle_seconds, idle, reporting, attempts, after.get("scheduled", 0))


async def _cores(running: Running, meanwhile: Awaitable[None]) -> float:
    """Return the cores that it uses during `meanwhile`."""
    before, at = proc.cpu_seconds(running.pid), proc.now()
    await meanwhile
    return (proc.cpu_seconds(running.pid) - before) / (proc.now() - at)


async def _report(calls: BulkClient, size: Size) -> None:
    """Update the Ready condition of each node once, which is five times as often as kubelets do."""
    for number in range(size.nodes):
        beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{number % 60:02}Z"}
        body = msgspec.json.encode({"status": {"conditions": [beat]}})
        await calls.merge(f"{collection('Node')}/node-{number}/status", body)
        await asyncio.sleep(size.seconds / size.nodes)


async def _until(running: Running, sample: re.Pattern[str], value: int) -> None:
    async with asyncio.timeout(_PATIENCE):
        while (found := sample.search(await _metrics(running))) is None or float(found[1]) != value:  # noqa: ASYNC110
            await asyncio.sleep(_POLL)


async def _attempts(running: Running) -> dict[str, int]:
    """Return the number of attempts so far by result."""
    found: dict[str, int] = {}
    for labels, value in _ATTEMPTS.findall(await _metrics(running)):
        result = labels.partition('result="')[2].partition('"')[0]
        found[result] = found.get(result, 0) + int(float(value))
    return found


async def _metrics(running: Running) -> str:
    return "" if running.metrics is None else await running.metrics()


def table(size: Size, found: Sequence[IdleResult]) -> Table:
    """Return the results as a table."""
    shown = Table(title=f"{size.pods:,} unschedulable pods of {size.shapes} shapes, {size.nodes:,} nodes")
    shown.add_column("contender")
    for title in ("s until all were attempted", "idle, % of a core", "kubelets report, % of a core"):
        shown.add_column(title, justify="right")
    shown.add_column(f"attempts for a node that fits {size.fitting:,}", justify="right")
    shown.add_column("bound", justify="right")
    for each in found:
        cores = (f"{100 * share:.2f}" for share in (each.idle_cores, each.reporting_cores))
        shown.add_row(each.contender, f"{each.settle_seconds:.1f}", *cores, f"{each.attempts:,}", f"{each.bound:,}")
    return shown


async def _run(contenders: Sequence[Contender], size: Size) -> list[IdleResult]:
    async with real_plane() as plane, bulk.connect(plane.api) as calls:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await calls.create_one(collection("Namespace"), msgspec.json.encode(namespace))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await calls.create_one(collection("ServiceAccount", NAMESPACE), msgspec.json.encode(account))
        await calls.create(Batch.of(collection("Node"), size.nodes, node(f"node-{INDEX}", {})))
        found = []
        for contender in contenders:
            found.append(await measure(plane, calls, contender, size))
            click.echo(f"{contender.name}: {100 * found[-1].idle_cores:.2f} % of a core while idle", err=True)
        return found


@click.command(context_settings={"show_default": True})
@click.option("--nodes", type=click.IntRange(min=1), default=100, help="Nodes, none of which fits a pod.")
@click.option("--pods", type=click.IntRange(min=1), default=10_000, help="Unschedulable pods.")
@click.option("--shapes", type=click.IntRange(min=1), default=100, help="Pod templates, used equally often.")
@click.option("--seconds", type=click.FloatRange(min=1), default=60.0, help="Seconds of each measurement.")
@click.option("--contenders", default=",".join(list(CONTENDERS)[:2]), help="Contenders, comma-separated.")
def main(nodes: int, pods: int, shapes: int, seconds: float, contenders: str) -> None:
    """Measure the CPU that unschedulable pods cost, compared with the real kube-scheduler."""
    if pods % shapes:
        raise click.BadParameter("must be a multiple of --shapes", param_hint="--pods")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    size = Size(nodes, pods, shapes, seconds)
    try:
        found = uvloop.run(_run(chosen(contenders), size))
    except (BuildError, ProcessFailed, SuiteError) as problem:
        raise click.ClickException(str(problem)) from None
    Console(width=None if sys.stdout.isatty() else 160).print(table(size, found))


if __name__ == "__main__":
    main()
