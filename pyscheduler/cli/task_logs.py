"""`tasks logs`, and the log stores of `tasks run`."""

from __future__ import annotations

import sys
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend.logs import FileLogs, LogStore, LogsUnavailable, PodLogDeleted, PodLogs, S3Logs, StreamLogs
from pyscheduler.backend.template import pod_name
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.cli.task_client import connected
from pyscheduler.cli.task_view import TaskRow
from pyscheduler.kube.errors import UNREACHABLE


class LogOptions(NamedTuple):
    """Options of `tasks logs`."""

    follow: bool
    tail: int | None
    container: str
    attempt: int | None


class PodSource(msgspec.Struct, frozen=True):
    """Cluster, namespace and backend name of the last `tasks run`, stored in the state file."""

    kubeconfig: str | None
    context: str
    namespace: str
    name: str


class _RunOptions(Protocol):
    @property
    def kubeconfig(self) -> Path | None: ...
    @property
    def context(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...


def source_of(flags: _RunOptions) -> str:
    """Return the source of the pods as text, for `tasks logs`."""
    kubeconfig = None if flags.kubeconfig is None else str(flags.kubeconfig.absolute())
    return msgspec.json.encode(PodSource(kubeconfig, flags.context, flags.namespace, flags.name)).decode()


def log_store(destination: str) -> LogStore:
    """Return the store that `--logs` names. CommandProblem if it cannot be used."""
    if destination == "-":
        return StreamLogs()
    if not destination.startswith("s3://"):
        return FileLogs(destination)
    bucket, _, prefix = destination.removeprefix("s3://").partition("/")
    try:
        return S3Logs(bucket, prefix)
    except ImportError:
        raise CommandProblem(f"--logs {destination} needs boto3: pip install 'pyscheduler[s3]'") from None


async def print_log(row: TaskRow, source: str, flags: LogOptions) -> int:
    """Print the log of a task's attempt; return the exit code. CommandProblem."""
    if row.record is None:
        raise CommandProblem(f"task {row.id!r} is {row.phase}: it has no pod")
    if not source:
        raise CommandProblem("no `pyscheduler tasks run` has used this state file: there are no pods")
    pods = msgspec.json.decode(source, type=PodSource)
    pod = pod_name(pods.name, row.id, flags.attempt or row.record.attempt)
    async with connected(pods.namespace, pods.kubeconfig, pods.context) as client:
        logs = PodLogs(client.lister_watcher, client.namespace)
        reading = logs.read(pod, flags.container, tail=flags.tail, follow=flags.follow)
        try:
            async with aclosing(reading) as chunks:
                async for chunk in chunks:
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
        except PodLogDeleted as problem:
            hint = "`tasks run` keeps failed pods with --keep-failed-seconds, and all logs with --logs"
            raise CommandProblem(f"task {row.id!r}: {problem}; {hint}") from None
        except (ApiError, LogsUnavailable) as problem:
            if isinstance(problem, ApiError) and problem.reason == UNREACHABLE:
                raise  # no fault of this task
            raise CommandProblem(f"task {row.id!r}: {problem}") from None
    return 0
