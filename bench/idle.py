"""What waiting costs: thousands of pods that nothing fits, while nothing helps them, and then one node that helps some.

Run `pyscheduler bench idle`. Pods of several shapes ask for nodes of their own label, which none has. Once all have
been tried, the scheduler's CPU is taken while the kubelets report as usual and nothing else happens. Then a node comes
that all pods of the first shape fit: those and no others should be tried again.
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
_RESTING = re.compile(r'^scheduler_pending_pods\{queue="unschedulable"\} (\S+)$', re.MULTILINE)
_POLL = 1.0
_AFTERWARDS = 5.0
"""Seconds for attempts that should not be made."""
_PATIENCE = 300.0


@dataclass(frozen=True)
class Size:
    """How much of everything; `seconds` is how long nothing happens."""

    nodes: int
    pods: int
    shapes: int
    seconds: float

    @property
    def helped(self) -> int:
        """The pods that the last node is for."""
        return self.pods // self.shapes


@dataclass(frozen=True)
class IdleResult:
    """Of one contender. Cores are CPU seconds a second, attempts those since the node came."""

    contender: str
    settled_in: float
    idle_cores: float
    reporting_cores: float
    attempts: int
    bound: int


def node(name: str, labels: Json, pods: int = 110) -> Json:
    """A node that is ready."""
    status = {
        "capacity": {"cpu": "32", "memory": "256Gi", "pods": str(pods)},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def waiting(shape: int, count: int) -> Batch:
    """Pods for the nodes of a shape."""
    spec = {
        "schedulerName": SCHEDULER,
        "nodeSelector": {SHAPE: str(shape)},
        "containers": [{"name": "pause", "image": "pause", "resources": {"requests": {"cpu": "1m"}}}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{shape}-{INDEX}"}, "spec": spec}
    return Batch.of(collection("Pod", NAMESPACE), count, pod)


async def measure(plane: Plane, calls: BulkClient, contender: Contender, size: Size) -> IdleResult:
    """One contender's turn, on nodes that are there. TimeoutError if it does not come to rest."""
    name = contender.scheduler_name
    click.echo(f"{contender.name}: {size.pods:,} pods, then twice {size.seconds:g} s of waiting", err=True)
    batches = [waiting(shape, size.helped).for_scheduler(name) for shape in range(size.shapes)]
    for batch in batches:
        await calls.create(batch)
    try:
        with tempfile.TemporaryDirectory(prefix="pyscheduler-bench-") as folder:
            async with contender.start(Site(plane), contender.scheduler_name, Path(folder)) as running:
                return await _watched(running, plane, calls, contender, size)
    finally:
        await calls.delete_each([f"{batch.path}/{name}" for batch in batches for name in batch.names()])
        await calls.delete_one(f"{collection('Node')}/{_HELPER}")


async def _watched(running: Running, plane: Plane, calls: BulkClient, contender: Contender, size: Size) -> IdleResult:
    started = proc.now()
    await _until(running, _RESTING, size.pods)
    settled_in = proc.now() - started
    # What was found out is still to be written: a condition and an Event for each pod.
    await wait_until_idle(
        [each.pid for each in plane.real.processes.values() if each.alive] if plane.real else [], _PATIENCE
    )
    idle = await _cores(running, asyncio.sleep(size.seconds))
    reporting = await _cores(running, _report(calls, size))
    before = await _attempts(running)
    await calls.create_one(collection("Node"), msgspec.json.encode(node(_HELPER, {SHAPE: "0"}, pods=size.helped)))
    await _until(running, _RESTING, size.pods - size.helped)
    await asyncio.sleep(_AFTERWARDS)
    after = await _attempts(running)
    made = sum(after.values()) - sum(before.values())
    return IdleResult(contender.name, settled_in, idle, reporting, made, after.get("scheduled", 0))


async def _cores(running: Running, meanwhile: Awaitable[None]) -> float:
    """What it uses meanwhile, in cores."""
    before, at = proc.cpu_seconds(running.pid), proc.now()
    await meanwhile
    return (proc.cpu_seconds(running.pid) - before) / (proc.now() - at)


async def _report(calls: BulkClient, size: Size) -> None:
    """Each kubelet says once that its node is well: five times as often as they do."""
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
    """Attempts so far, by result."""
    found: dict[str, int] = {}
    for labels, value in _ATTEMPTS.findall(await _metrics(running)):
        result = labels.partition('result="')[2].partition('"')[0]
        found[result] = found.get(result, 0) + int(float(value))
    return found


async def _metrics(running: Running) -> str:
    return "" if running.metrics is None else await running.metrics()


def table(size: Size, found: Sequence[IdleResult]) -> Table:
    """For people."""
    made = Table(title=f"{size.pods:,} pods of {size.shapes} shapes that nothing fits, {size.nodes:,} nodes")
    made.add_column("contender")
    for title in ("s until all were tried", "idle, % of a core", "kubelets report, % of a core"):
        made.add_column(title, justify="right")
    made.add_column(f"attempts for a node that fits {size.helped:,}", justify="right")
    made.add_column("bound", justify="right")
    for each in found:
        cores = (f"{100 * share:.2f}" for share in (each.idle_cores, each.reporting_cores))
        made.add_row(each.contender, f"{each.settled_in:.1f}", *cores, f"{each.attempts:,}", f"{each.bound:,}")
    return made


async def _run(contenders: Sequence[Contender], size: Size) -> list[IdleResult]:
    async with real_plane() as plane, bulk.opened(plane.api) as calls:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await calls.create_one(collection("Namespace"), msgspec.json.encode(namespace))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await calls.create_one(collection("ServiceAccount", NAMESPACE), msgspec.json.encode(account))
        await calls.create(Batch.of(collection("Node"), size.nodes, node(f"node-{INDEX}", {})))
        found = []
        for contender in contenders:
            found.append(await measure(plane, calls, contender, size))
            click.echo(
                f"{contender.name}: {100 * found[-1].idle_cores:.2f} % of a core while nothing happens", err=True
            )
        return found


@click.command(context_settings={"show_default": True})
@click.option("--nodes", type=click.IntRange(min=1), default=100, help="Nodes, none of which fits.")
@click.option("--pods", type=click.IntRange(min=1), default=10_000, help="Pods that wait.")
@click.option("--shapes", type=click.IntRange(min=1), default=100, help="Shapes that they have, as many of each.")
@click.option("--seconds", type=click.FloatRange(min=1), default=60.0, help="How long nothing happens.")
@click.option("--contenders", default=",".join(list(CONTENDERS)[:2]), help="Who is measured, by commas.")
def main(nodes: int, pods: int, shapes: int, seconds: float, contenders: str) -> None:
    """Measure what pods cost that wait, beside the real kube-scheduler."""
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
