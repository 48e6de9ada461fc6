"""Costs of the task backend without faults, beside a bare client that creates, watches and deletes the same pods.

    python -m tests.tasks.throughput --tasks 1000 --control-plane real

Both run in a process of their own, in turns, on uvloop as `pyscheduler tasks run`. The bare client has no
state, no finalizers and no retries: it is the least that the same pods cost in Python.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import uvloop

from pyscheduler.backend import BackendSettings, FixedBudget, KubernetesClient, KubernetesTaskBackend, Resources
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.backend.task import TaskRecord, TaskSpec
from pyscheduler.backend.template import BACKEND, pod_body
from tests.e2e.client import ApiClient, Json
from tests.e2e.plane import EMBEDDED, REAL, Plane, new_namespace
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import POOL, hollow_nodes
from tests.faults.soak import cluster

ROOT = Path(__file__).parents[2]
SCHEDULER: Final = "tasks"
PODS_AT_ONCE: Final = 300
NODES: Final = 20
WARM_UP_SECONDS: Final = 3.0
"""Time for imports, credentials, the first list and the watch, which are no costs of tasks."""
CLIENTS: Final = ("bare", "backend")


class Usage(NamedTuple):
    """Time, CPU time and calls of a client, without its start."""

    seconds: float
    cpu_seconds: float
    calls: int

    @classmethod
    def now(cls, calls: int) -> Usage:
        """Return the usage of this process so far."""
        return cls(time.monotonic(), time.process_time(), calls)

    def since(self, before: Usage) -> Usage:
        """Return the difference."""
        return Usage(self.seconds - before.seconds, self.cpu_seconds - before.cpu_seconds, self.calls - before.calls)


async def run_backend(options: Mapping[str, Any]) -> Usage:
    """Run the tasks with the backend; return their costs."""
    received = 0

    async def on_update(_: TaskRecord) -> None:
        nonlocal received
        received += 1

    client = KubernetesClient(options["namespace"], kubeconfig=options["kubeconfig"], qps=0)
    settings = BackendSettings(name=options["name"], scheduler=SCHEDULER)
    state, budget = SqliteState(Path(options["state"])), FixedBudget(Resources.of({"pods": PODS_AT_ONCE}))
    backend = KubernetesTaskBackend(client, state, budget, settings=settings, on_update=on_update)
    async with client, backend:
        await asyncio.sleep(WARM_UP_SECONDS)
        before = Usage.now(client.calls.total())
        await backend.submit_all(_specs(options))
        await backend.wait_until_settled()
        usage = Usage.now(client.calls.total()).since(before)
    assert received >= options["tasks"]
    return usage


async def run_bare_client(options: Mapping[str, Any]) -> Usage:
    """Run the same pods without a backend; return their costs."""
    path, name = f"/api/v1/namespaces/{options['namespace']}/pods", options["name"]
    room = asyncio.Semaphore(PODS_AT_ONCE)
    remaining, ended = options["tasks"], set[str]()

    def handle_event(type: str, pod: Json) -> None:
        nonlocal remaining
        pod_name = pod["metadata"]["name"]
        if type == "DELETED":
            room.release()
            remaining -= 1
        elif pod["status"].get("phase") == "Succeeded" and pod_name not in ended:
            ended.add(pod_name)
            group.create_task(api.delete(f"{path}/{pod_name}"))

    async def follow(version: str) -> None:
        while remaining:  # the server ends a watch that it finds too slow
            async for event in api.watch(path, resourceVersion=version, labelSelector=f"{BACKEND}={name}"):
                version = event["object"]["metadata"]["resourceVersion"]
                handle_event(event["type"], event["object"])
                if not remaining:
                    break

    async def create(spec: TaskSpec) -> None:
        await api.create(path, pod_body(TaskRecord(spec=spec), name, SCHEDULER, finalizer=False))

    async with ApiClient(options["kubeconfig"]) as api:
        listed = await api.get(path, limit=1)
        await asyncio.sleep(WARM_UP_SECONDS)
        before = Usage.now(0)
        async with asyncio.TaskGroup() as group:
            group.create_task(follow(listed["metadata"]["resourceVersion"]))
            for spec in _specs(options):
                await room.acquire()
                group.create_task(create(spec))
        return Usage.now(2 * options["tasks"] + 1).since(before)


def _specs(options: Mapping[str, Any]) -> list[TaskSpec]:
    runs = {"pyscheduler.io/run-seconds": "1"}
    ids = (f"{options['name']}-{number:05}" for number in range(options["tasks"]))
    return [
        TaskSpec(id=id, image="pause:1", cpu="10m", annotations=runs, node_selector={POOL: options["pool"]})
        for id in ids
    ]


def per_task(usage: Usage, tasks: int) -> dict[str, float]:
    """Return the figures per task."""
    return {
        "tasksPerSecond": round(tasks / usage.seconds, 1),
        "cpuMillisecondsPerTask": round(1000 * usage.cpu_seconds / tasks, 2),
        "callsPerTask": round(usage.calls / tasks, 3),
    }


async def compare(plane: Plane, tasks: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Run both clients in turns; return the median figures of each, and the throughput of the backend as a ratio."""
    namespace = "throughput"
    await new_namespace(plane.api, namespace)
    figures: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
    async with hollow_nodes(plane, namespace, NODES, cpu="16"), scheduler(plane, Configured(SCHEDULER), folder):
        for number in range(rounds):
            for client in CLIENTS:
                options = {
                    "client": client,
                    "name": f"{client}-{number}",
                    "namespace": namespace,
                    "pool": namespace,
                    "kubeconfig": str(plane.kubeconfig),
                    "state": str(folder / f"{number}.db"),
                    "tasks": tasks,
                }
                figures[client].append(await _run_process(options))
    medians = {
        client: {name: median(each[name] for each in runs) for name in runs[0]} for client, runs in figures.items()
    }
    ratio = medians["backend"]["tasksPerSecond"] / medians["bare"]["tasksPerSecond"]
    return {"target": plane.target, "tasks": tasks, **medians, "throughputRatio": round(ratio, 2)}


async def _run_process(options: Mapping[str, Any]) -> dict[str, float]:
    command = (sys.executable, "-m", __spec__.name, "--worker", json.dumps(options))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0, f"client {options['client']} exited with {process.returncode}"
    figures: dict[str, float] = json.loads(out)
    return figures


async def _main(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    async with cluster(arguments.control_plane) as plane:
        return await compare(plane, arguments.tasks, arguments.rounds, folder)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--control-plane", choices=(EMBEDDED, REAL), default=EMBEDDED)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        options = json.loads(arguments.worker)
        work = run_backend(options) if options["client"] == "backend" else run_bare_client(options)
        sys.stdout.write(json.dumps(per_task(uvloop.run(work), options["tasks"])))
        return
    with TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(asyncio.run(_main(arguments, Path(folder))), indent=2) + "\n")


if __name__ == "__main__":
    main()
