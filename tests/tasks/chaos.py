"""Chaos run: a burst of tasks while the backend is killed, its disk is full, its watches die and its owner fails.

    python -m tests.tasks.chaos --tasks 5000 --kills 10 --control-plane real --out build/tasks-chaos

An API server, hollow nodes and the scheduler run the pods. The backend is a separate process that connects through a
proxy, which injects faults. The run fails if the audit reports a problem; figures are written in any case.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import resource
import shutil
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from pyscheduler.backend.state.request_queue import RequestQueue
from pyscheduler.backend.state.sqlite_file import open_state_file
from pyscheduler.backend.state.sqlite_lock import HOLDER
from pyscheduler.backend.state.sqlite_records import get_meta
from tests.e2e.plane import EMBEDDED, REAL, Plane, new_namespace
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import hollow_nodes
from tests.faults.proxy import FaultProxy
from tests.faults.request_matchers import ProxiedRequest
from tests.faults.scheduler_under_test import start_proxy
from tests.faults.soak import cluster
from tests.faults.waiting import until
from tests.tasks import platform
from tests.tasks.audit import Evidence, ReportedUpdates
from tests.tasks.chaos_faults import ChaosFaults
from tests.tasks.deleted_namespace import DeletedNamespace
from tests.tasks.kinds import tasks
from tests.tasks.rights import kubeconfig_through
from tests.tasks.witness import Witness, caught_up, witnessing

ROOT = Path(__file__).parents[2]
SCHEDULER = "tasks"
PROGRESS_INTERVAL = 10.0
"""Seconds between two progress lines."""


@dataclass(frozen=True)
class ChaosSettings:
    """Load and faults of a chaos run."""

    tasks: int = 5_000
    kills: int = 10
    expired: int = 1
    """Number of watches rejected with 410, and number of watches that end with a 410 event."""
    max_pods: int = 600
    """Pods that the budget allows."""
    nodes: int = 40
    qps: float = 400.0
    disk_full_seconds: float = 20.0
    """Time during which the files of one of the backend's processes cannot grow."""
    silence_interval: tuple[float, float] = (8.0, 16.0)
    doomed_tasks: int = 20
    """Tasks of the second backend, in the namespace that is deleted."""
    timeout: float = 1_500.0
    """Time limit of the run in seconds."""
    seed: int = 1


class CountingProxy:
    """Counts the requests through a proxy, by verb and resource."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.calls: Counter[str] = Counter()
        self._open = proxy.opened
        proxy.opened = self._counted  # type: ignore[method-assign]  # every call passes there

    @asynccontextmanager
    async def _counted(self, request: ProxiedRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        self.calls[verb_of(request)] += 1
        async with self._open(request) as response:
            yield response


def verb_of(request: ProxiedRequest) -> str:
    """Return verb and resource as in a Role: `create pods`, `watch pods`."""
    parts = request.path.strip("/").split("/")
    after = parts[parts.index("namespaces") + 2 :] if "namespaces" in parts else parts[-1:]
    if request.method == "GET":
        verb = "watch" if request.is_watch else "get" if len(after) > 1 else "list"
    else:
        verb = {"POST": "create", "PUT": "update"}.get(request.method, request.method.lower())
    return f"{verb} {after[0] if after else 'namespaces'}"


async def _copy(stream: asyncio.StreamReader | None, file: Path) -> None:
    assert stream is not None
    with file.open("ab", buffering=0) as log:
        while chunk := await stream.read(65536):
            log.write(chunk)


@dataclass
class Chaos:
    """One chaos run."""

    plane: Plane
    settings: ChaosSettings
    namespace: str
    folder: Path
    witness: Witness
    rng: random.Random
    report: Callable[[str], None]
    faults: ChaosFaults
    doomed: DeletedNamespace
    starts: int = 0
    failed_commits: int = 0
    """Commits that failed while the disk was full."""
    wrong: list[str] = field(default_factory=list)
    """Problems of the second backend."""
    _logs: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self) -> None:
        """Run until the owner has received the end of all tasks. AssertionError if it fails or takes too long."""
        work = (*self.faults.work(), self._report_progress())
        helpers = [asyncio.create_task(each) for each in work]
        owners = asyncio.create_task(self._run_backends())
        try:
            async with asyncio.timeout(self.settings.timeout):
                while not owners.done():
                    ended = [helper for helper in helpers if helper.done()]
                    for helper in ended:
                        helper.result()
                    running = [helper for helper in helpers if helper not in ended]
                    await asyncio.wait([owners, *running], return_when=asyncio.FIRST_COMPLETED)
            self.wrong = owners.result()
        finally:
            for task in (owners, *helpers):
                task.cancel()
            await asyncio.gather(owners, *helpers, return_exceptions=True)
        await asyncio.gather(*self._logs)
        expired = self.faults.expired
        assert expired == 2 * self.settings.expired, f"only {expired} watches received 410"
        assert self.failed_commits or not self.settings.kills, "no commit failed while the disk was full"

    async def _run_backends(self) -> list[str]:
        """Run both backends to their ends; return the problems of the second one."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_owners())
            deleting = group.create_task(self._delete_namespace())
        return deleting.result()

    async def _run_owners(self) -> None:
        """Start owner processes and kill each at a random time; the last one runs to its end."""
        fractions = sorted(self.rng.uniform(0.02, 0.95) for _ in range(self.settings.kills))
        for number, fraction in enumerate(fractions):
            process = await self._start(self._options())
            await self._wait_for_ended(fraction * self.settings.tasks, process)
            assert process.returncode is None, f"the owner ended before it was killed:\n{self._log()}"
            if number == len(fractions) // 2:
                await self._wait_for_open_state(process)
                await self._fill_disk(process)
            await asyncio.sleep(self.rng.uniform(0.0, 1.0))
            process.kill()
            await process.wait()
            await asyncio.sleep(self.rng.choice((0.0, 0.5, 2.0)))
        process = await self._start(self._options())
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
        assert code == 0, f"the owner exited with {code}:\n{self._log()}"

    async def _wait_for_open_state(self, process: asyncio.subprocess.Process) -> None:
        """Wait until the process runs: on a full disk it would not start."""
        path = self.folder / platform.STATE

        async def opened() -> bool:
            assert process.returncode is None, f"the owner ended before it opened its state:\n{self._log()}"
            with closing(open_state_file(path)) as db:
                return f"process {process.pid} " in (get_meta(db, path, HOLDER) or "")

        await until(opened, self.settings.timeout)

    async def _fill_disk(self, process: asyncio.subprocess.Process) -> None:
        """Let no file of the process grow for a time; the state and the owner's journal are such files."""
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, hard))
        await asyncio.sleep(self.settings.disk_full_seconds)
        self.failed_commits = self._all_logs().count("writing the state failed")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    async def _delete_namespace(self) -> list[str]:
        """Run the second backend once a tenth of the tasks has ended; return its problems."""

        async def begun() -> bool:
            return self.witness.ended >= self.settings.tasks * 0.1

        await until(begun, self.settings.timeout)
        return await self.doomed.run(self._start, self._options())

    def _options(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "namespace": self.namespace,
            "kubeconfig": str(self.folder / "kubeconfig"),
            "tasks": self.settings.tasks,
            "pool": self.namespace,
            "scheduler": SCHEDULER,
            "maxPods": self.settings.max_pods,
            "qps": self.settings.qps,
            "pollSeconds": 20.0,
            "hostile": True,
        }

    async def _start(self, options: Mapping[str, Any]) -> asyncio.subprocess.Process:
        self.starts += 1
        program = os.environ.get("TASKS_PLATFORM", platform.__name__)
        command = (sys.executable, "-m", program, json.dumps(options))
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
        # A pipe, because the process cannot write to a file while its disk is full.
        log = self.folder / f"owner-{self.starts}.log"
        self._logs.append(asyncio.create_task(_copy(process.stdout, log)))
        return process

    async def _wait_for_ended(self, count: float, process: asyncio.subprocess.Process) -> None:
        """Wait until `count` pods have ended, or the process has."""

        async def reached() -> bool:
            return self.witness.ended >= count or process.returncode is not None

        await until(reached, self.settings.timeout)

    async def _report_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL)
            ended, alive = self.witness.ended, self.witness.alive
            pods = f"{ended:,} pods of {self.settings.tasks:,} tasks have ended, {alive:,} are alive"
            self.report(f"{pods}; {self.starts} processes started, {self.faults.dropped} watches dropped")

    def _log(self) -> str:
        return self._all_logs()[-4000:]

    def _all_logs(self) -> str:
        """Return the logs of all processes."""
        logs = sorted(self.folder.glob("owner-*.log"), key=lambda log: log.stat().st_mtime)
        return "".join(log.read_text(errors="replace") for log in logs)

    async def evidence(self) -> Evidence:
        """Return the results to audit, once the owner has ended."""
        await caught_up(self.plane.api, self.namespace, self.witness)
        with RequestQueue(self.folder / platform.STATE) as queue:
            records = {id: msgspec.to_builtins(record) for id, record in queue.read_state().records.items()}
        left = await self.plane.api.list(f"/api/v1/namespaces/{self.namespace}/pods")
        return Evidence(
            ids=[spec.id for spec in tasks(self.settings.tasks, self.namespace, SCHEDULER)],
            witness=self.witness,
            records=records,
            reported=ReportedUpdates.read(self.folder / platform.JOURNAL),
            deletions=self.faults.deletions,
            max_pods=self.settings.max_pods,
            summary=json.loads((self.folder / platform.SUMMARY).read_text()),
            left=[pod["metadata"]["name"] for pod in left if not pod["metadata"].get("deletionTimestamp")],
        )


async def chaos(
    plane: Plane, namespace: str, settings: ChaosSettings, folder: Path, report: Callable[[str], None] = lambda _: None
) -> tuple[list[str], dict[str, Any]]:
    """Run in an empty namespace; return the problems found and the figures. `report` receives progress lines."""
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(start_proxy(plane))
        counting = CountingProxy(proxy)
        await stack.enter_async_context(hollow_nodes(plane, namespace, settings.nodes, cpu="16"))
        await stack.enter_async_context(scheduler(plane, Configured(SCHEDULER), folder))
        witness = await stack.enter_async_context(witnessing(plane.api, namespace))
        (folder / "kubeconfig").write_text(await kubeconfig_through(proxy, plane, namespace))
        rng, name = random.Random(settings.seed), f"{namespace}-deleted"
        faults = ChaosFaults(
            api=plane.api,
            namespace=namespace,
            proxy=proxy,
            witness=witness,
            rng=rng,
            tasks=settings.tasks,
            expiring=settings.expired,
            silence_interval=settings.silence_interval,
            timeout=settings.timeout,
        )
        doomed = DeletedNamespace(plane, proxy, name, folder / "deleted", settings.doomed_tasks)
        run = Chaos(plane, settings, namespace, folder, witness, rng, report, faults, doomed)
        began = time.monotonic()
        await run.run()
        seconds = time.monotonic() - began
        evidence = await run.evidence()
        problems = [*evidence.problems(), *run.wrong]
        (folder / "problems.json").write_text(json.dumps(evidence.histories(problems), indent=1))
        return problems, _figures(run, counting, seconds)


def _figures(run: Chaos, counting: CountingProxy, seconds: float) -> dict[str, Any]:
    count = run.settings.tasks
    return {
        "tasks": count,
        "seconds": round(seconds, 1),
        "tasksPerSecond": round(count / seconds, 1),
        "processes": run.starts,
        "killed": run.settings.kills,
        "failedCommits": run.failed_commits,
        **run.faults.figures(),
        "podsSeen": len(run.witness.pods),
        "mostPodsAtOnce": run.witness.most_alive,
        "callsPerTask": {verb: round(n / count, 3) for verb, n in sorted(counting.calls.items())},
        "allCallsPerTask": round(counting.calls.total() / count, 2),
        "allCallsPerPod": round(counting.calls.total() / len(run.witness.pods), 2),
    }


async def _main(arguments: argparse.Namespace, folder: Path) -> list[str]:
    settings = ChaosSettings(
        arguments.tasks,
        arguments.kills,
        max_pods=arguments.at_once,
        seed=arguments.seed,
        disk_full_seconds=arguments.disk_full,
    )
    async with cluster(arguments.control_plane) as plane:
        await new_namespace(plane.api, "chaos")
        problems, figures = await chaos(plane, "chaos", settings, folder, _report)
    results = {"target": arguments.control_plane, "seed": arguments.seed, **figures, "wrong": problems}
    (arguments.out / "chaos.json").write_text(json.dumps(results, indent=2) + "\n")
    sys.stdout.write(json.dumps(results, indent=2) + "\n")
    return problems


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=ChaosSettings.tasks)
    parser.add_argument("--kills", type=int, default=ChaosSettings.kills)
    parser.add_argument("--at-once", type=int, default=ChaosSettings.max_pods)
    parser.add_argument("--control-plane", choices=(EMBEDDED, REAL), default=EMBEDDED)
    parser.add_argument("--disk-full", type=float, default=ChaosSettings.disk_full_seconds)
    parser.add_argument("--seed", type=int, default=ChaosSettings.seed)
    parser.add_argument("--out", type=Path, default=Path("build/tasks-chaos"))
    arguments = parser.parse_args()
    folder: Path = arguments.out / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # asyncio warns of each connection that the proxy resets
    try:
        problems = asyncio.run(_main(arguments, folder))
    except AssertionError as problem:
        problems = [str(problem)]
    for line in problems[:50]:
        _report(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
