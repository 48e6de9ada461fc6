"""`pyscheduler run`: the scheduler itself, against any Kubernetes API server."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import click

from pyscheduler.cli import options
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.shell import logs
from pyscheduler.shell.clock import SystemClock
from pyscheduler.shell.http import Checks, HttpServer
from pyscheduler.shell.kube.connection import ConnectionOptions, connect
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.reload import Reloader, Source
from pyscheduler.shell.scheduler import Connections, Scheduler

log = logs.get("run")
_POD_GROUPS = ("scheduling.x-k8s.io", "podgroups")


@click.command
@options.config
@click.option(
    "--kubeconfig",
    type=options.FILE,
    metavar="FILE",
    help="How to reach the API server; in-cluster credentials without one.",
)
@click.option(
    "--write-config-to",
    type=options.FILE,
    metavar="FILE",
    help="Write the configuration there, with every default filled in, and end.",
)
@options.feature_gates
@options.verbosity
@options.logging_format
@click.option("--bind-address", default="0.0.0.0", metavar="A", help="Where /livez, /readyz and /metrics are served.")
@click.option("--secure-port", default=10259, metavar="P", help="Their port, plain HTTP; 0 serves none.")
def run(
    config: Path | None,
    kubeconfig: Path | None,
    write_config_to: Path | None,
    feature_gates: tuple[str, ...],
    verbosity: int,
    logging_format: str,
    bind_address: str,
    secure_port: int,
) -> None:
    """Schedule the pods whose spec.schedulerName is a profile of FILE; leave all others alone."""
    options.logging(logging_format, verbosity)
    configuration = options.loaded(config, feature_gates)
    if write_config_to is not None:
        options.write(configuration, write_config_to)
        return
    address = (bind_address, secure_port)
    source = None if config is None else Source(config, options.gates(feature_gates))
    sys.exit(options.run_async(_run(configuration, kubeconfig, address, source)))


async def _run(config: LoadedConfig, kubeconfig: Path | None, address: tuple[str, int], source: Source | None) -> int:
    clock, metrics = SystemClock(), Metrics()
    client = config.configuration.client_connection
    path = kubeconfig or (Path(client.kubeconfig) if client.kubeconfig else None)
    limits = ConnectionOptions(qps=client.qps, burst=client.burst, content_type=client.content_type)
    async with AsyncExitStack() as stack:
        calls = await connect(path, limits, clock)
        stack.push_async_callback(calls.close)
        events = calls.another()
        stack.push_async_callback(events.close)
        scheduler = Scheduler(config, Connections(calls, events), clock, metrics)
        if address[1]:
            server = HttpServer(_checks(scheduler), lambda: metrics.registry, *address)
            await server.start()
            stack.push_async_callback(server.stop)
        if any((kind.group, kind.plural) == _POD_GROUPS for kind in scheduler.kinds):
            # Whoever runs gangs wants to see how they are doing. All others start without waiting for kopf's import.
            from pyscheduler.controllers.operator import PodGroupOperator

            await stack.enter_async_context(PodGroupOperator(path))
        if source is not None:
            await stack.enter_async_context(Reloader(source, scheduler, clock))
        log.info("Scheduling", profiles=", ".join(scheduler.names), server=calls.server)
        await until_signalled(scheduler)
    return 0


def _checks(scheduler: Scheduler) -> Checks:
    def informers() -> str | None:
        missing = scheduler.unsynced
        return f"not listed yet: {missing}" if missing else None

    return Checks(ready={"informer-sync": informers})


async def until_signalled(scheduler: Scheduler) -> None:
    """Run until SIGINT or SIGTERM, then stop gracefully; what the scheduler raises is raised."""
    work = asyncio.create_task(scheduler.run())

    def stop() -> None:
        log.info("Stopping")
        work.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
