"""Logs of tasks: read from the API server, and stored before their pods are deleted."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyscheduler.api import ApiError
from pyscheduler.backend import BackendSettings, FileLogs, LogStore, LogsUnavailable, S3Logs, StreamLogs, TaskLog
from pyscheduler.backend.logs import ContainerLog, PodLogs
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.problems import Problems
from pyscheduler.backend.releases import ReleaseHook
from pyscheduler.clock import SystemClock
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.errors import RequestError
from pyscheduler.kube.outage import watch_outage_log
from tests.tasks.records import record

ENDED = PodState(name="nightly-1", uid="u", version=1, attempt=1, phase="Failed", exit_code=3, has_finalizer=True)


class FakeLogServer:
    """Connection that serves one log, in chunks that do not end with its lines."""

    deadlines = Deadlines()

    def __init__(self, text: bytes = b"", problem: ApiError | None = None) -> None:
        self.paths: list[str] = []
        self._text, self._problem = text, problem
        self.watch_outages = watch_outage_log(SystemClock())

    @asynccontextmanager
    async def reading(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        self.paths.append(path)
        if self._problem is not None:
            raise self._problem
        yield self._chunks()

    def watching(self, path: str, seconds: float) -> Any:
        return self.reading(f"{path} for {seconds} s")

    async def _chunks(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._text), 7):
            yield self._text[start : start + 7]


def log_of(server: FakeLogServer) -> ContainerLog:
    return ContainerLog(PodLogs(server, "jobs"), record("nightly/7"), "nightly-1", 2, "task")


def files_below(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]


async def test_log_is_read_with_the_parameters_of_kubectl() -> None:
    server = FakeLogServer(b"one\ntwo\n")
    logs = PodLogs(server, "jobs")
    assert b"".join([chunk async for chunk in logs.read("p", "c", tail=9)]) == b"one\ntwo\n"
    assert [chunk async for chunk in logs.read("p", follow=True)]
    path = "/api/v1/namespaces/jobs/pods/p/log"
    assert server.paths == [f"{path}?container=c&tailLines=9", f"{path}?follow=true for inf s"]


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        pytest.param(RequestError(404, "NotFound", 'pods "p" not found'), "does not exist any more", id="pod is gone"),
        pytest.param(
            RequestError(405, "MethodNotAllowed", "hollow nodes run no containers"),
            "the API server has no logs of pod p: hollow nodes run no containers",
            id="embedded server",
        ),
    ],
)
async def test_missing_logs_are_one_clear_line(problem: ApiError, message: str) -> None:
    with pytest.raises(LogsUnavailable, match=message):
        [chunk async for chunk in PodLogs(FakeLogServer(problem=problem), "jobs").read("p")]


async def test_logs_are_stored_as_files(tmp_path: Path) -> None:
    await FileLogs(tmp_path).store(log_of(FakeLogServer(b"one\ntwo\n")))
    assert (tmp_path / "nightly%2F7" / "2" / "task.log").read_bytes() == b"one\ntwo\n"
    assert len(list((tmp_path / "nightly%2F7" / "2").iterdir())) == 1, "no partial file is left"


@pytest.mark.parametrize("task", ["..", ".", "ü" * 253])
async def test_name_of_a_log_is_valid_as_a_path_for_every_task_id(task: str, tmp_path: Path) -> None:
    log = ContainerLog(PodLogs(FakeLogServer(b"x"), "jobs"), record(task), "p", 1, "task")
    await FileLogs(tmp_path / "logs").store(log)
    [file] = files_below(tmp_path)
    assert (file.parts[0], file.parts[2:]) == ("logs", ("1", "task.log"))


async def test_logs_are_written_to_a_stream_with_their_task() -> None:
    stream = io.BytesIO()
    await StreamLogs(stream).store(log_of(FakeLogServer(b"one\nlast line")))
    assert stream.getvalue() == b"nightly%2F7/2/task: one\nnightly%2F7/2/task: last line\n"


class StuckStream(io.BytesIO):
    """Pipe whose reader does not read, until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.released = threading.Event(), threading.Event()

    def write(self, data: Any) -> int:
        self.began.set()
        assert self.released.wait(10.0), "the event loop is blocked, so the test cannot release the stream"
        return super().write(data)


async def test_stream_that_blocks_blocks_neither_the_event_loop_nor_its_threads() -> None:
    stream = StuckStream()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    storing = asyncio.create_task(StreamLogs(stream).store(log_of(FakeLogServer(b"one\n"))))
    while not stream.began.is_set():  # noqa: ASYNC110  # of another thread
        await asyncio.sleep(0.001)
    await asyncio.to_thread(stream.released.set)
    await storing
    assert stream.getvalue() == b"nightly%2F7/2/task: one\n"


async def test_file_that_blocks_does_not_block_the_event_loop(tmp_path: Path) -> None:
    part = tmp_path / "nightly%2F7" / "2" / "task.log.part"
    part.parent.mkdir(parents=True)
    os.mkfifo(part)  # opening it blocks until it has a reader, as a file of a hung server does
    storing = asyncio.create_task(FileLogs(tmp_path).store(log_of(FakeLogServer(b"one\n"))))
    await asyncio.sleep(0)
    with await asyncio.to_thread(part.open, "rb") as reader:
        assert await asyncio.to_thread(reader.read) == b"one\n"
    await storing


@pytest.fixture
def boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module `boto3` that puts objects into a folder."""
    (tmp_path / "boto3.py").write_text(
        "import pathlib\n"
        "class client:\n"
        "    def __init__(self, kind, endpoint_url):\n"
        "        self.folder = pathlib.Path(endpoint_url)\n"
        "    def put_object(self, *, Bucket, Key, Body):\n"
        "        (self.folder / f'{Bucket}_{Key}'.replace('/', '_')).write_bytes(Body)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


async def test_logs_are_stored_in_a_bucket(boto3: Path) -> None:
    await S3Logs("logs", "tasks", endpoint_url=str(boto3)).store(log_of(FakeLogServer(b"one\n")))
    assert (boto3 / "logs_tasks_nightly%2F7_2_task.log").read_bytes() == b"one\n"


class FailingStore:
    """Store that fails for the first calls."""

    def __init__(self, failures: int) -> None:
        self.failures, self.names = failures, list[str]()

    async def store(self, log: TaskLog) -> None:
        self.names.append(log.name)
        if len(self.names) <= self.failures:
            raise OSError("the disk is full")


def hook(*stores: LogStore) -> tuple[ReleaseHook, Problems]:
    problems = Problems()
    settings = BackendSettings(hook_attempts=3)
    return ReleaseHook(PodLogs(FakeLogServer(b"x"), "jobs"), stores, settings, problems), problems


async def test_pod_is_released_after_its_logs_were_stored() -> None:
    store = FailingStore(failures=1)
    releases, problems = hook(store)
    pod = msgspec.structs.replace(ENDED, containers=("task", "audit"))
    with pytest.raises(ApiError, match="logs of pod nightly-1 cannot be stored: the disk is full"):
        await releases.before_release(record("nightly"), pod)
    assert problems.parts().keys() == {"logs"}
    await releases.before_release(record("nightly"), pod)
    assert store.names == ["nightly/1/task", "nightly/1/task", "nightly/1/audit"]
    assert not problems.parts()


async def test_logs_are_stored_before_a_pod_without_finalizer_is_deleted() -> None:
    store = FailingStore(failures=0)
    settings = BackendSettings(finalizer=False)
    releases = ReleaseHook(PodLogs(FakeLogServer(b"x"), "jobs"), [store], settings, Problems())
    await releases.before_release(record("nightly"), msgspec.structs.replace(ENDED, has_finalizer=False))
    assert store.names == ["nightly/1/log"]


async def test_pod_whose_logs_cannot_be_stored_is_released_in_the_end() -> None:
    releases, _ = hook(FailingStore(failures=9))
    for _ in range(2):
        with pytest.raises(ApiError):
            await releases.before_release(record("nightly"), ENDED)
    await releases.before_release(record("nightly"), ENDED)


async def test_pod_that_never_ran_has_no_logs() -> None:
    store = FailingStore(failures=9)
    releases, _ = hook(store)
    await releases.before_release(record("nightly"), msgspec.structs.replace(ENDED, exit_code=None))
    assert store.names == []
