"""Second backend, in a namespace that is deleted while its tasks run: all of them end, and the namespace goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pyscheduler.backend.state.request_queue import RequestQueue
from tests.e2e.client import ApiError
from tests.e2e.plane import Plane, new_namespace
from tests.faults.proxy import FaultProxy
from tests.faults.waiting import until
from tests.tasks import platform
from tests.tasks.audit import FINAL, ReportedUpdates, reported_ends
from tests.tasks.kinds import LONG, tasks
from tests.tasks.rights import kubeconfig_through

StartOwner = Callable[[Mapping[str, Any]], Any]
"""Starts an owner process with these options."""
_PHASES = frozenset({"Failed"})
_SECONDS = 240.0
_RUNNING = 5
"""Pods that run when the namespace is deleted."""


class DeletedNamespace:
    """Backend with tasks that outlast their namespace."""

    def __init__(self, plane: Plane, proxy: FaultProxy, name: str, folder: Path, count: int) -> None:
        self._plane, self._proxy, self._name = plane, proxy, name
        self._folder, self._count = folder, count

    async def run(self, start: StartOwner, options: Mapping[str, Any]) -> list[str]:
        """Start the backend, delete its namespace; return the problems once its process has ended."""
        await new_namespace(self._plane.api, self._name)
        self._folder.mkdir()
        (self._folder / "kubeconfig").write_text(await kubeconfig_through(self._proxy, self._plane, self._name))
        own = {
            "folder": str(self._folder),
            "namespace": self._name,
            "kubeconfig": str(self._folder / "kubeconfig"),
            "tasks": self._count,
            "kind": LONG,
            "hostile": False,
        }
        process = await start({**options, **own})
        try:
            await until(self._pods_run, _SECONDS)
            await self._plane.api.delete(f"/api/v1/namespaces/{self._name}")
            async with asyncio.timeout(_SECONDS):
                code = await process.wait()
        except TimeoutError:
            return [f"the backend of the deleted namespace did not end: {self._states()}"]
        finally:
            if process.returncode is None:
                process.kill()
        if code:
            return [f"the backend of the deleted namespace exited with {code}"]
        try:
            await until(self._is_gone, _SECONDS)
        except TimeoutError:
            return [f"namespace {self._name} still exists"]
        return list(self.problems())

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with the ends of the tasks."""
        records = self._records()
        reported = reported_ends(ReportedUpdates.read(self._folder / platform.JOURNAL))
        for spec in tasks(self._count, self._name, "", LONG):
            record = records.get(spec.id, {})
            phase, cleaned = record.get("phase"), record.get("cleaned")
            if phase not in _PHASES or not cleaned:
                yield f"task {spec.id} of the deleted namespace is {phase}, cleaned {cleaned}"
            if {end for _, end in reported[spec.id]} != {phase} or len(reported[spec.id]) != 1:
                yield f"task {spec.id} of the deleted namespace: its owner received {sorted(reported[spec.id])}"
        summary = json.loads((self._folder / platform.SUMMARY).read_text())
        if summary["free"] != summary["budget"]:
            yield f"deleted namespace: in the end {summary['free']} is free of {summary['budget']}"

    async def _pods_run(self) -> bool:
        pods = await self._plane.api.list(f"/api/v1/namespaces/{self._name}/pods")
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return len(running) >= min(_RUNNING, self._count)

    async def _is_gone(self) -> bool:
        try:
            await self._plane.api.get(f"/api/v1/namespaces/{self._name}")
        except ApiError as problem:
            return int(problem.status) == 404
        return False

    def _records(self) -> dict[str, Any]:
        with RequestQueue(self._folder / platform.STATE) as queue:
            return {id: msgspec.to_builtins(record) for id, record in queue.read_state().records.items()}

    def _states(self) -> list[str]:
        open_ones = [r for r in self._records().values() if r["phase"] not in FINAL or not r.get("cleaned")]
        return [f"{r['spec']['id']} {r['phase']} {r.get('reason')} {r.get('message')}" for r in open_ones[:5]]
