"""`tasks run` executes each request of the queue once, also those that a killed process has executed before.

It reports requests that are rejected, and how many tasks have ended.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from pyscheduler.backend import (
    NoOrphan,
    Offer,
    Resources,
    TaskExists,
    TaskPhase,
    TaskRecord,
    TaskSpec,
    TaskUnsettled,
)
from pyscheduler.backend.state.request_queue import Adopt, Forget, Request, RequestQueue, Submit
from pyscheduler.cli import task_run
from pyscheduler.cli.task_run import RequestWorker, UpdateReporter
from tests.tasks.records import record


class BackendWithTask:
    """Backend with one task, and without orphans."""

    def __init__(self, known: TaskRecord) -> None:
        self._known: TaskRecord | None = known

    def tasks(self) -> dict[str, TaskRecord]:
        return {self._known.id: self._known} if self._known else {}

    def submit_when_room(self, spec: TaskSpec) -> asyncio.Future[None]:
        raise TaskExists(f"task {spec.id!r} exists with another spec")

    async def delete_pods(self) -> None:
        """Settle the task after a while, as the lifecycle of a real backend does."""
        await asyncio.sleep(0.3)
        assert self._known is not None
        self._known = msgspec.structs.replace(self._known, cleaned=True)

    async def forget(self, task: str) -> None:
        assert self._known is not None
        if not self._known.settled:
            raise TaskUnsettled(f"task {task!r} is not over")
        self._known = None

    def allocated_resources(self) -> Resources:
        return Resources({})

    def offer(self) -> Offer:
        return Offer(None)

    async def adopt(self, pod: str) -> TaskRecord:
        raise NoOrphan(f"there is no orphan {pod!r}")

    async def wait_until_settled(self) -> None:
        return None


def run_once(folder: Path, known: TaskRecord, *requests: Request, output: str = "text") -> int:
    """Execute the requests as `tasks run --once` does; return its exit code."""
    backend = BackendWithTask(known)

    async def work() -> int:
        with RequestQueue(folder / "tasks.db", create=True) as queue:
            queue.put(requests)
            worker = RequestWorker(queue, backend, UpdateReporter(output))  # type: ignore[arg-type]
            code, *_ = await asyncio.gather(worker.run(once=True), backend.delete_pods())
            return code

    return asyncio.run(work())


def test_adoption_that_a_killed_process_has_executed_is_not_rejected(tmp_path: Path) -> None:
    adopted = record("a", phase=TaskPhase.SUCCEEDED, submission="s1")
    with RequestQueue(tmp_path / "tasks.db", create=True) as queue:
        queue.put([Adopt("a", "a-1", "s1"), Adopt("a", "a-1", "another")])
        worker = RequestWorker(queue, BackendWithTask(adopted), UpdateReporter("json"))  # type: ignore[arg-type]
        assert asyncio.run(worker.run(once=True)) == 1
        assert [request.request for request in queue.rejected()] == [Adopt("a", "a-1", "another")]


def test_rejected_requests_are_printed_with_the_reason_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = Submit(TaskSpec(id="b", image="i")), Adopt("a", "a-1", "another")
    assert run_once(tmp_path, record("a", phase=TaskPhase.SUCCEEDED), *requests) == 1
    out, err = capsys.readouterr()
    assert out == "b Refused: task 'b' exists with another spec\n"
    assert err.splitlines()[-2:] == [
        "pod a-1 not adopted: there is no orphan 'a-1'",
        "2 of 2 tasks have ended (1 succeeded, 1 refused)",
    ]


def test_rejected_task_is_a_line_of_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = record("a", phase=TaskPhase.SUCCEEDED)
    assert run_once(tmp_path, done, Submit(TaskSpec(id="b", image="i")), output="json") == 1
    message = "task 'b' exists with another spec"
    line = {"spec": {"id": "b", "image": "i"}, "phase": "Refused", "message": message}
    assert json.loads(capsys.readouterr().out) == line


def test_rejected_adoption_of_an_earlier_run_does_not_fail_the_next(tmp_path: Path) -> None:
    done = record("a", phase=TaskPhase.SUCCEEDED)
    assert run_once(tmp_path, done, Adopt("a", "a-1", "another")) == 1
    assert run_once(tmp_path, done) == 0


def test_ended_task_is_forgotten_once_its_pods_are_deleted(tmp_path: Path) -> None:
    assert run_once(tmp_path, record("a", phase=TaskPhase.SUCCEEDED), Forget("a")) == 0
    with RequestQueue(tmp_path / "tasks.db") as queue:
        assert (queue.pending(), queue.rejected()) == ([], [])


class BackendThatWaits:
    """Backend whose start waits until its problem has been read."""

    def __init__(self) -> None:
        self._shown = asyncio.Event()

    @property
    def problem(self) -> str:
        self._shown.set()
        return "the cluster cannot be identified: connection refused"

    async def __aenter__(self) -> None:
        await self._shown.wait()

    async def __aexit__(self, *_: object) -> None:
        return None


def test_start_shows_that_the_api_server_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(task_run, "_REPORT_SECONDS", 0.0)

    async def start() -> None:
        async with AsyncExitStack() as stack:
            await task_run._start(BackendThatWaits(), "https://dev:6443", stack, UpdateReporter("text"))

    asyncio.run(start())
    expected = (
        "Waiting for the start (API server https://dev:6443): the cluster cannot be identified: connection refused\n"
    )
    assert capsys.readouterr().err == expected
