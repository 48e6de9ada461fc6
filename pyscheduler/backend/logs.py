"""Logs of tasks: the pods/log subresource, and stores for logs that outlive their pods."""

from __future__ import annotations

import asyncio
import hashlib
import math
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TypeVar
from urllib.parse import quote, urlencode

from pyscheduler.api import ApiError
from pyscheduler.backend.errors import BackendProblem
from pyscheduler.backend.task import TaskRecord
from pyscheduler.kube.paths import PODS, object_path
from pyscheduler.kube.reflector import ListerWatcher

T = TypeVar("T")
_WRITES_AT_ONCE: Final = 4
_NOT_SERVED = (404, 405, 501)
_LONGEST_PART = 200
"""Most characters of a task's id in the name of its log; file names may have 255."""


class LogsUnavailable(BackendProblem):
    """Logs of a pod cannot be read; the message gives the reason."""


class PodLogDeleted(LogsUnavailable):
    """The pod was deleted, and its log with it."""


class PodLogs:
    """Logs of the pods of one namespace."""

    def __init__(self, connection: ListerWatcher, namespace: str) -> None:
        self._connection, self._namespace = connection, namespace

    async def read(
        self, pod: str, container: str = "", *, tail: int | None = None, follow: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Yield the log of a container as it arrives, with `follow` until the container has ended.

        `tail` limits it to the last lines. `container` may be "" for pods with one. LogsUnavailable, ApiError.
        """
        query = {"container": container, "tailLines": "" if tail is None else tail, "follow": "true" if follow else ""}
        parameters = urlencode({name: value for name, value in query.items() if value != ""})
        path = f"{object_path(PODS, self._namespace, pod, 'log')}?{parameters}".rstrip("?")
        stream = self._connection.watching(path, math.inf) if follow else self._connection.reading(path)
        try:
            async with stream as chunks:
                async for chunk in chunks:
                    yield chunk
        except ApiError as problem:
            raise _explained(problem, pod) from None


def _explained(problem: ApiError, pod: str) -> Exception:
    if problem.status not in _NOT_SERVED:
        return problem
    if problem.reason == "NotFound" and f'pods "{pod}" not found' in str(problem):
        return PodLogDeleted(f"pod {pod} does not exist any more")
    return LogsUnavailable(f"the API server has no logs of pod {pod}: {problem}")


class TaskLog(Protocol):
    """Log of one container of a task's attempt."""

    record: TaskRecord
    container: str

    @property
    def name(self) -> str:
        """Name of the log: task, attempt and container, valid as a path of three parts."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the log. LogsUnavailable, ApiError."""
        ...


class LogStore(Protocol):
    """Store of logs. It is called before a pod is deleted, at least once for each container of an attempt."""

    async def store(self, log: TaskLog) -> None:
        """Store the log, or replace what an earlier call has stored. If it raises, it is called again later."""
        ...


class ContainerLog:
    """`TaskLog` of a pod that still exists."""

    def __init__(self, logs: PodLogs, record: TaskRecord, pod: str, attempt: int, container: str) -> None:
        self.record, self.container = record, container
        self._logs, self._pod, self._attempt = logs, pod, attempt

    @property
    def name(self) -> str:
        return f"{_path_part(self.record.id)}/{self._attempt}/{self.container or 'log'}"

    def chunks(self) -> AsyncGenerator[bytes, None]:
        return self._logs.read(self._pod, self.container)


def _path_part(task: str) -> str:
    """Return the name of a task's folder: its id, with a hash in place of the end of a very long one."""
    part = quote(task, safe="")
    if not part.strip("."):
        return part.replace(".", "%2E")  # no folder above
    if len(part) <= _LONGEST_PART:
        return part
    return f"{part[:_LONGEST_PART]}-{hashlib.sha256(task.encode()).hexdigest()[:10]}"


class _StoreThreads:
    """Threads of a log store. Those of the event loop resolve names, which a hung disk or pipe must not delay."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="task backend: logs")

    async def call(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Call a function that may block, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *arguments, **options))


class FileLogs:
    """Logs as files `FOLDER/TASK/ATTEMPT/CONTAINER.log`. A file appears once it is complete."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        self._threads = _StoreThreads(_WRITES_AT_ONCE)

    async def store(self, log: TaskLog) -> None:
        path = self._folder / f"{log.name}.log"
        part = path.with_name(f"{path.name}.part")
        await self._threads.call(path.parent.mkdir, parents=True, exist_ok=True)
        file: BinaryIO = await self._threads.call(part.open, "wb")
        try:
            async with aclosing(log.chunks()) as chunks:
                async for chunk in chunks:
                    await self._threads.call(file.write, chunk)
        finally:
            await self._threads.call(file.close)
        await self._threads.call(part.replace, path)


class StreamLogs:
    """Logs on standard output, or another binary stream, each line after `TASK/ATTEMPT/CONTAINER: `."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stdout.buffer
        self._threads = _StoreThreads(1)  # one, so that lines of different logs do not mix

    async def store(self, log: TaskLog) -> None:
        prefix = f"{log.name}: ".encode()
        async with aclosing(log.chunks()) as chunks:
            async for lines in _lines(chunks):
                await self._threads.call(self._write, b"".join(prefix + line + b"\n" for line in lines))

    def _write(self, lines: bytes) -> None:
        self._stream.write(lines)
        self._stream.flush()


class S3Logs:
    """Logs as objects `PREFIX/TASK/ATTEMPT/CONTAINER.log` of a bucket. Needs `pip install pyscheduler[s3]`.

    `options` are those of `boto3.client("s3")`, such as `endpoint_url` for other S3-compatible servers.
    """

    def __init__(self, bucket: str, prefix: str = "", **options: Any) -> None:
        self._bucket, self._prefix = bucket, prefix
        self._client = import_module("boto3").client("s3", **options)
        self._threads = _StoreThreads(_WRITES_AT_ONCE)

    async def store(self, log: TaskLog) -> None:
        async with aclosing(log.chunks()) as chunks:
            body = b"".join([chunk async for chunk in chunks])
        key = f"{self._prefix}/{log.name}.log".lstrip("/")
        await self._threads.call(self._client.put_object, Bucket=self._bucket, Key=key, Body=body)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[list[bytes], None]:
    """Yield the lines that are complete after each chunk, and last a line that does not end."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]
