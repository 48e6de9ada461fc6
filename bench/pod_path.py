"""The path of one warm pod through the code: files and calls from the watch's bytes to the binding's bytes.

Run `python -m bench.pod_path`. An embedded cluster and a scheduler run in this process. Pods of one template are bound
until everything is cached; then the calls of the next one are recorded. The cluster runs in a thread of its own, which
is not recorded, and neither are coroutines that continue, such as the loop of a reflector.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

import pyscheduler
from pyscheduler.clock import SystemClock
from pyscheduler.config.load import default
from pyscheduler.embedded.api import Api
from pyscheduler.embedded.cluster import EmbeddedCluster
from pyscheduler.kube.connection import ConnectionOptions, connect
from pyscheduler.shell.instrument import RestClientMetrics
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.scheduler import Connections, Scheduler
from pyscheduler.shell.threads import LoopThread
from pyscheduler.testing import pod

ROOT: Final = Path(pyscheduler.__file__).parent
WARM: Final = 24
"""Pods that are bound before the measured one, which is none of those with timed plugins (every tenth, from the first).
"""
LAST: Final = "measured"
SETTLING: Final = 1.0
"""Seconds without pods before the measured one, in which the statuses and Events of the others are written."""
TIMEOUT: Final = 10.0
_SUSPENDABLE: Final = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_FIRST_INSTRUCTIONS: Final = 8
"""Bytes of the instructions that create a coroutine; the first call continues after them."""
CLOCK_RATE: Final = 1e-2
"""Seconds of the scheduler per second: recording takes long, and must not use up the time slice of the loop's turn."""


class SlowClock(SystemClock):
    """The scheduler's clock."""

    def now(self) -> float:
        return super().now() * CLOCK_RATE


class PathRecorder:
    """Python calls within the scheduler, in order, from the bytes of one pod to the bytes of its binding."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, int]] = []
        """(file, function, depth of the stack)"""
        self._recording = self.is_complete = False
        self._depth = 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls of the block, without garbage collection: its callbacks are not on the path."""
        gc.disable()
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            gc.enable()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if self.is_complete or event != "call":
            return
        name = _file_of(frame.f_code)
        if not name:
            caller = frame.f_back
            written = frame.f_code.co_name == "write" and caller is not None and _file_of(caller.f_code)
            self.is_complete = self._recording and bool(written) and str(written).startswith("kube/")
            return
        if not self._recording and frame.f_code.co_name == "data_received":
            data = frame.f_locals.get("data", b"")
            self._recording = f'"{LAST}"'.encode() in bytes(data)
        if self._recording and not _is_resumed(frame):
            self.calls.append((name, frame.f_code.co_qualname, _depth(frame)))


def _depth(frame: FrameType | None) -> int:
    """Frames of the scheduler on the stack."""
    depth = 0
    while frame is not None:
        depth += bool(_file_of(frame.f_code))
        frame = frame.f_back
    return depth


def _is_resumed(frame: FrameType) -> bool:
    """True for a coroutine or generator that continues: it was called long before the pod arrived."""
    return bool(frame.f_code.co_flags & _SUSPENDABLE) and frame.f_lasti > _FIRST_INSTRUCTIONS


def _file_of(code: CodeType) -> str:
    """The file below the package, "" for one elsewhere."""
    path = code.co_filename
    return path[len(str(ROOT)) + 1 :] if path.startswith(str(ROOT)) else ""


async def record_path(nodes: int) -> PathRecorder:
    """Bind warm pods, then return the recorded path of one more. TimeoutError if a pod is not bound."""
    recorder = PathRecorder()
    async with AsyncExitStack() as stack:
        thread = await stack.enter_async_context(LoopThread("cluster"))
        cluster = await thread.run(partial(thread.resources.enter_async_context, EmbeddedCluster(nodes, port=0)))
        metrics = Metrics()
        rest = partial(RestClientMetrics, metrics)
        connection = await connect(cluster.kubeconfig, ConnectionOptions(qps=-1), metrics=rest)
        stack.push_async_callback(connection.close)
        connections = Connections.to_server_of(connection)
        stack.push_async_callback(connections.close)
        scheduler = Scheduler(default(), connections, SlowClock(), metrics)
        running = asyncio.create_task(scheduler.run())
        api = cluster.server.api
        try:
            for i in range(WARM):
                await thread.run(partial(_bind, api, f"warm-{i}"))
            await asyncio.sleep(SETTLING)
            with recorder.recording():
                await thread.run(partial(_bind, api, LAST))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    return recorder


async def _bind(api: Api, name: str) -> None:
    pods = api.resource("pods")
    api.create(pods, "default", pod(name).requests(cpu="10m").manifest)
    clock = SystemClock()
    async with asyncio.timeout(TIMEOUT):
        while not api.get(pods, "default", name).object["spec"].get("nodeName"):
            await clock.sleep(0.02)


def markdown_table(recorder: PathRecorder) -> str:
    """Files in the order of the first call in each, with their functions in the order of calls."""
    functions: dict[str, dict[str, None]] = {}
    for name, function, _ in recorder.calls:
        functions.setdefault(name, {})[function.replace(".<locals>", "")] = None
    rows = [f"| `{name}` | {', '.join(f'`{each}`' for each in called)} |" for name, called in functions.items()]
    return "\n".join(("| file | functions |", "| --- | --- |", *rows))


def table(recorder: PathRecorder) -> Table:
    """Files in the order of the first call in each, with their functions and calls."""
    shown = Table("file", "functions", "calls")
    files = dict.fromkeys(name for name, _, _ in recorder.calls)
    calls = Counter(name for name, _, _ in recorder.calls)
    for name in files:
        functions = dict.fromkeys(function for each, function, _ in recorder.calls if each == name)
        shown.add_row(name, str(len(functions)), str(calls[name]))
    total = len({(name, function) for name, function, _ in recorder.calls})
    shown.add_section()
    shown.add_row(f"{len(files)} files", str(total), str(len(recorder.calls)))
    return shown


@click.command(context_settings={"show_default": True})
@click.option("--nodes", type=click.IntRange(min=1), default=20, help="Hollow nodes.")
@click.option("--markdown", is_flag=True, help="Print the table of docs/pod-path.md.")
@click.option("--calls", is_flag=True, help="Print every call, indented by the depth of the stack.")
def main(nodes: int, calls: bool, markdown: bool) -> None:
    """Print files and calls on the path of one warm pod, from the bytes of the watch to the bytes of the binding."""
    recorder = asyncio.run(record_path(nodes))
    if calls:
        least = min(depth for _, _, depth in recorder.calls)
        for name, function, depth in recorder.calls:
            click.echo(f"{'  ' * (depth - least)}{function}  {name}")
    if markdown:
        click.echo(markdown_table(recorder))
        return
    Console(width=None if sys.stdout.isatty() else 120).print(table(recorder))


if __name__ == "__main__":
    main()
