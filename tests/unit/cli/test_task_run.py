"""`tasks run` executes each request of the queue once, also those that a killed process has executed before."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pyscheduler.backend import NoOrphan, Offer, Resources, TaskPhase, TaskRecord
from pyscheduler.backend.state.request_queue import Adopt, RequestQueue
from pyscheduler.cli.task_run import RequestWorker, UpdateReporter
from tests.tasks.records import record


class BackendWithTask:
    """Backend with one task, and without orphans."""

    def __init__(self, known: TaskRecord) -> None:
        self._known = known

    def tasks(self) -> dict[str, TaskRecord]:
        return {self._known.id: self._known}

    def allocated_resources(self) -> Resources:
        return Resources({})

    def offer(self) -> Offer:
        return Offer(None)

    async def adopt(self, pod: str) -> TaskRecord:
        raise NoOrphan(f"there is no orphan {pod!r}")

    async def wait_until_settled(self) -> None:
        return None


def test_adoption_that_a_killed_process_has_executed_is_not_rejected(tmp_path: Path) -> None:
    adopted = record("a", phase=TaskPhase.SUCCEEDED, submission="s1")
    with RequestQueue(tmp_path / "tasks.db", create=True) as queue:
        queue.put([Adopt("a", "a-1", "s1"), Adopt("a", "a-1", "another")])
        worker = RequestWorker(queue, BackendWithTask(adopted), UpdateReporter("json"))  # type: ignore[arg-type]
        assert asyncio.run(worker.run(once=True)) == 1
        assert [request.request for request in queue.rejected()] == [Adopt("a", "a-1", "another")]
