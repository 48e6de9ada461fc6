"""Scheduler of `up`: the one of this process with its endpoints, another program, or none."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

from pyscheduler.cli import endpoints
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.endpoints import EndpointOptions
from pyscheduler.cli.run import health_checks
from pyscheduler.clock import Clock
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.embedded.cluster import EmbeddedCluster
from pyscheduler.kube.connection import ConnectionOptions, connect
from pyscheduler.shell.heartbeat import Heartbeat
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.scheduler import Connections, Scheduler

if TYPE_CHECKING:
    from pyscheduler.controllers.operator import PodGroupOperator

_PLACEHOLDER: Final = "{kubeconfig}"
_TERMINATION_SECONDS: Final = 5.0
_SHOWN_LINES: Final = 5


class StartedScheduler(NamedTuple):
    """Scheduler of a running cluster."""

    description: str
    """What it is, for the first line of the output."""
    main: Callable[[], Coroutine[Any, Any, None]]
    """Runs it until cancelled."""
    endpoints: str = ""
    """URL of its endpoints, "" if it has none."""


class InProcessScheduler(NamedTuple):
    """The scheduler of this process with the pages of `run`, which need no authorization here."""

    config: LoadedConfig
    secure_port: int
    flags: Callable[[], Mapping[str, Any]]
    operator: type[PodGroupOperator]
    """Its import takes a third of a second, and must not block the event loop."""

    async def start(
        self, stack: AsyncExitStack, cluster: EmbeddedCluster, clock: Clock, metrics: Metrics, heartbeat: Heartbeat
    ) -> StartedScheduler:
        """Connect to the cluster and serve the endpoints. ServerProblem if the port is in use."""
        connection = await connect(cluster.kubeconfig, ConnectionOptions(qps=-1))
        stack.push_async_callback(connection.close)
        connections = Connections.to_server_of(connection)
        stack.push_async_callback(connections.close)
        scheduler = Scheduler(self.config, connections, clock, metrics)
        checks = health_checks(scheduler, {"main-loop": heartbeat.check}, {})
        pages = endpoints.pages(checks, scheduler, clock, self.flags)
        serving = msgspec.structs.replace(
            _default_endpoints(),
            bind_address="127.0.0.1",
            secure_port=self.secure_port,
            # As the API server of the cluster: only this machine can connect, and needs no token.
            authorization_always_allow_paths="/*",
            authentication_skip_lookup=True,  # the cluster has no CA of clients
        )
        port = await stack.enter_async_context(endpoints.serve_in_thread(serving, pages, connection, clock))
        operator = self.operator(cluster.kubeconfig, volcano_schedulers=scheduler.names)
        await stack.enter_async_context(operator)
        description = f"with a scheduler for {' and '.join(scheduler.names)}"
        return StartedScheduler(description, scheduler.run, f"https://127.0.0.1:{port}")


def _default_endpoints() -> EndpointOptions:
    """Return the defaults of `run`'s flags."""
    defaults: list[EndpointOptions] = []

    @click.command()
    @endpoints.options
    def command(serving: EndpointOptions) -> None:
        defaults.append(serving)

    command.main([], standalone_mode=False)
    return defaults[0]


class SchedulerCommand:
    """Another scheduler as a child process; its end is the end of `up`."""

    def __init__(self, command: str) -> None:
        """CommandProblem if the command line has an open quote or is empty."""
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise CommandProblem(f"--scheduler-command: {command!r} is not a command line: {error}") from None
        if not self._words:
            raise CommandProblem("--scheduler-command: is empty; write a program and its arguments")

    async def start(self, stack: AsyncExitStack, kubeconfig: Path) -> StartedScheduler:
        """Start the program with KUBECONFIG set and {kubeconfig} replaced. CommandProblem if it cannot be started."""
        words = [word.replace(_PLACEHOLDER, str(kubeconfig)) for word in self._words]
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                env=os.environ | {"KUBECONFIG": str(kubeconfig)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for `up`, which then stops it
            )
        except OSError as error:
            reason = error.strerror or error
            raise CommandProblem(f"--scheduler-command: {words[0]} cannot be started: {reason}") from None
        stack.push_async_callback(_stop, process)
        return StartedScheduler(f"with the scheduler {shlex.join(words)}", partial(_until_exit, process))


async def _until_exit(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of the program. CommandProblem with its exit code and last lines."""
    last: deque[str] = deque(maxlen=_SHOWN_LINES)
    assert process.stdout is not None
    async for line in _lines(process.stdout):
        last.append(line)
    code = await process.wait()
    how = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
    output = "; its last output:\n" + "\n".join(last) if last else ", without any output"
    raise CommandProblem(f"--scheduler-command: the scheduler {how}{output}")


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yield the lines of a stream; one that is too long is cut into parts."""
    while True:
        try:
            line = await stream.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            line = end.partial
        except asyncio.LimitOverrunError as overrun:
            line = await stream.readexactly(overrun.consumed)
        if not line:
            return
        yield line.decode(errors="replace").rstrip()


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_TERMINATION_SECONDS):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def no_scheduler() -> StartedScheduler:
    """Return the absence of a scheduler: pods stay pending until another program binds them."""
    return StartedScheduler("without a scheduler", _forever)


async def _forever() -> None:
    await asyncio.Event().wait()
