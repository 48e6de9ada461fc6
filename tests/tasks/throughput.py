"""Costs of the task backend without faults, beside a bare client that creates, watches and deletes the same pods.

    python -m tests.tasks.throughput --tasks 1000 --control-plane real --out build/tasks-throughput

Both run in a process of their own, in turns on one cluster. The bare client has no state, no finalizers and no retries:
it is the least that the same pods cost in Python.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyscheduler.backend import BackendSettings, FixedBudget, KubernetesClient, KubernetesTaskBackend, Resources
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.backend.task import TaskRecord, TaskSpec
from pyscheduler.backend.template import BACKEND, pod_body
from tests.e2e.client import ApiClient
from tests.e2e.plane import EMBEDDED, REAL, Plane, new_namespace
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import POOL, hollow_nodes
from tests.faults.soak import cluster

ROOT = Path(__file__).parents[2]
SCHEDULER: Final = "tasks"
PODS_AT_ONCE: Final = 300
NODES: Final = 20
CLIENTS: Final = ("bare", "backend")


async def run_backend(options: Mapping[str, Any]) -> dict[str, int]:
    """Run the tasks with the backend; return the numbers of its calls."""
    received = 0

    async def on_update(_: TaskRecord) -> None:
        nonlocal received
        received += 1

    client = KubernetesClient(options["namespace"], kubeconfig=options["kubeconfig"], qps=0)
    settings = BackendSettings(name=options["name"], scheduler=SCHEDULER)
    state, budget = SqliteState(Path(options["state"])), FixedBudget(Resources.of({"pods": PODS_AT_ONCE}))
    backend = KubernetesTaskBackend(client, state, budget, settings=settings, on_update=on_update)
    async with client, backend:
        await backend.submit_all(_specs(options))
        await backend.wait_until_settled()
    assert received >= options["tasks"]
    return dict(client.calls)


async def run_bare_client(options: Mapping[str, Any]) -> dict[str, int]:
    """Run the same pods without a backend; return the numbers of calls."""
    path, name = f"/api/v1/namespaces/{options['namespace']}/pods", options["name"]
    room, deleted = asyncio.Semaphore(PODS_AT_ONCE), asyncio.Event()
    remaining = options["tasks"]

    async def follow(version: str) -> None:
        nonlocal remaining
        deletions = set()
        query = {"resourceVersion": version, "labelSelector": f"{BACKEND}={name}"}
        async for event in api.watch(path, **query):
            pod = event["object"]
            if event["type"] == "DELETED":
                room.release()
                remaining -= 1
                if not remaining:
                    deleted.set()
                    return
            elif pod["status"].get("phase") == "Succeeded" and "deletionTimestamp" not in pod["metadata"]:
                deletions.add(asyncio.create_task(api.delete(f"{path}/{pod['metadata']['name']}")))

    async def create(spec: TaskSpec) -> None:
        await api.create(path, pod_body(TaskRecord(spec=spec), name, SCHEDULER, finalizer=False))

    async with ApiClient(options["kubeconfig"]) as api:
        listed = await api.get(path, limit=1)
        following = asyncio.create_task(follow(listed["metadata"]["resourceVersion"]))
        async with asyncio.TaskGroup() as creating:
            for spec in _specs(options):
                await room.acquire()
                creating.create_task(create(spec))
        await deleted.wait()
        await following
    return {"POST": options["tasks"], "DELETE": options["tasks"], "GET": 2}


def _specs(options: Mapping[str, Any]) -> list[TaskSpec]:
    runs = {"pyscheduler.io/run-seconds": "1"}
    ids = (f"{options['name']}-{number:05}" for number in range(options["tasks"]))
    return [
        TaskSpec(id=id, image="pause:1", cpu="10m", annotations=runs, node_selector={POOL: options["pool"]})
        for id in ids
    ]


def measure(work: Coroutine[Any, Any, dict[str, int]], tasks: int) -> dict[str, float]:
    """Run the client of this process; return its figures per task."""
    began, cpu = time.monotonic(), time.process_time()
    calls = asyncio.run(work)
    seconds, cpu_seconds = time.monotonic() - began, time.process_time() - cpu
    return {
        "tasksPerSecond": round(tasks / seconds, 1),
        "cpuMillisecondsPerTask": round(1000 * cpu_seconds / tasks, 2),
        "callsPerTask": round(sum(calls.values()) / tasks, 3),
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
        sys.stdout.write(json.dumps(measure(work, options["tasks"])))
        return
    with TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(asyncio.run(_main(arguments, Path(folder))), indent=2) + "\n")


if __name__ == "__main__":
    main()
