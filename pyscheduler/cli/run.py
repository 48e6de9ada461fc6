"""`pyscheduler run`: the scheduler for a Kubernetes API server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from pyscheduler import __version__, kernels, logs
from pyscheduler.api.quantity import QuantityError
from pyscheduler.api.resources import amount
from pyscheduler.cli import compat, endpoints, options
from pyscheduler.cli.compat import Legacy
from pyscheduler.cli.endpoints import EndpointOptions
from pyscheduler.cli.pod_groups import PodGroupControllerRunner
from pyscheduler.cli.sections import SectionedCommand, option
from pyscheduler.cli.stop_signals import until_signalled
from pyscheduler.clock import SystemClock
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.kube.connection import CONNECTIONS, ConnectionOptions, connect_when_available
from pyscheduler.shell import descriptors
from pyscheduler.shell.heartbeat import Heartbeat
from pyscheduler.shell.instrument import RestClientMetrics
from pyscheduler.shell.leadership import ALWAYS_LEADER, Leadership, LeaseLost
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.recording.writer import RecordingWriter
from pyscheduler.shell.reload import Reloader, Source
from pyscheduler.shell.scheduler import Connections, Scheduler, SchedulerOptions
from pyscheduler.shell.scheduling_policy import set_batch_scheduling_policy
from pyscheduler.shell.serving.health import Check, Checks
from pyscheduler.shell.watchdog import Watchdog

_RECORDING: Final = "Recording"
log = logs.get("run")


def _size(_: click.Context, __: click.Parameter, text: str) -> int:
    try:
        size = amount("memory", text)
    except QuantityError as problem:
        raise click.BadParameter(str(problem)) from None
    if size <= 0:
        raise click.BadParameter(f"{text!r} is not a size such as 512Mi or 2Gi")
    return size


@click.command(cls=SectionedCommand)
@options.config
@option(
    "--kubeconfig",
    section=options.API_SERVER,
    type=options.FILE,
    metavar="FILE",
    help="Kubeconfig for the API server (default: $KUBECONFIG, in-cluster credentials).",
)
@option(
    "--write-config-to",
    section=options.CONFIGURATION,
    type=options.WRITABLE,
    metavar="FILE",
    help="Write the configuration with all defaults filled in to FILE and exit.",
)
@options.feature_gates
@options.leader_election
@options.logged
@option(
    "--record",
    section=_RECORDING,
    type=options.FOLDER,
    metavar="DIR",
    help="Record all inputs and decisions in a file in DIR, for `pyscheduler replay`.",
)
@option(
    "--record-max-bytes",
    section=_RECORDING,
    default="1Gi",
    callback=_size,
    metavar="SIZE",
    help="Limit for all recordings in DIR: the oldest are deleted, then recording stops.",
)
@compat.options
@endpoints.options
def run(
    config: Path | None,
    kubeconfig: Path | None,
    write_config_to: Path | None,
    record: Path | None,
    record_max_bytes: int,
    feature_gates: tuple[str, ...],
    legacy: Legacy,
    serving: EndpointOptions,
    **election: Any,
) -> None:
    """Run the scheduler against a Kubernetes API server.

    It schedules the pods with a spec.schedulerName that is a profile of --config, and ignores all others. The flags
    are those of kube-scheduler; flags that exist only for compatibility are not listed.

    \b
    Start with a file of all settings. Beside kube-scheduler, change its schedulerName to a name of your own:
      pyscheduler run --write-config-to scheduler.yaml
      pyscheduler config validate scheduler.yaml

    \b
    Run it on your machine:
      pyscheduler run --config scheduler.yaml --kubeconfig ~/.kube/config

    \b
    In the cluster, run several replicas of which one schedules:
      pyscheduler run --config scheduler.yaml --leader-elect
    """
    flags = options.election(election)
    gates = options.gates(feature_gates, legacy.emulated_version)
    configuration = options.loaded(config, gates, flags, legacy.flag_defaults)
    if write_config_to is not None:
        options.write(configuration, write_config_to)
        return
    source = None if config is None else Source(config, gates, flags)
    client = configuration.configuration.client_connection
    path = kubeconfig or (Path(client.kubeconfig) if client.kubeconfig else None)
    process_flags = ProcessFlags(
        path,
        legacy.master,
        legacy.max_unschedulable_seconds,
        partial(options.all_flags, click.get_current_context()),
        record,
        record_max_bytes,
    )
    work = partial(_run, configuration, process_flags, serving, source)
    sys.exit(options.run_async(until_signalled(work)) or 0)


class ProcessFlags(NamedTuple):
    """Flags of the process that are neither configuration nor endpoint options."""

    kubeconfig: Path | None
    server: str
    """URL of the API server, overrides the kubeconfig; "" for that of the kubeconfig."""
    max_unschedulable_seconds: float
    flags: Callable[[], Mapping[str, Any]]
    """Function that returns all flags by name."""
    record: Path | None
    """Directory for a recording; None to record nothing."""
    record_max_bytes: int


async def _run(
    config: LoadedConfig, process_flags: ProcessFlags, serving: EndpointOptions, source: Source | None
) -> int:
    batch = set_batch_scheduling_policy()
    clock, metrics = SystemClock(), Metrics()
    client = config.configuration.client_connection
    limits = ConnectionOptions(descriptors.connections(CONNECTIONS), client.qps, client.burst, client.content_type)
    async with AsyncExitStack() as stack:
        heartbeat = await stack.enter_async_context(Heartbeat(clock))
        stack.enter_context(Watchdog(heartbeat, metrics))
        observe = partial(RestClientMetrics, metrics)
        connection = await connect_when_available(
            process_flags.kubeconfig, limits, clock, process_flags.server, observe
        )
        stack.push_async_callback(connection.close)
        leadership: Leadership = ALWAYS_LEADER
        healthz: dict[str, Check] = {}
        if config.configuration.leader_election.leader_elect:
            # Imported here: without leader election the start need not wait for it.
            from pyscheduler.shell.lease_thread import CHECK, elected

            replica = elected(config.configuration, connection, clock, metrics, heartbeat.check)
            election = await stack.enter_async_context(replica)
            leadership, healthz[CHECK] = election, election.check
        connections = Connections.to_server_of(connection, leadership)
        stack.push_async_callback(connections.close)
        recording = None
        if process_flags.record is not None:
            recording = RecordingWriter(process_flags.record, process_flags.record_max_bytes, clock)
            stack.enter_context(recording)
        names = [profile.scheduler_name for profile in config.profiles]
        groups = PodGroupControllerRunner(process_flags.kubeconfig, process_flags.server, names)
        on_kinds_changed = (await stack.enter_async_context(groups)).on_kinds_changed
        scheduler_options = SchedulerOptions(process_flags.max_unschedulable_seconds, on_kinds_changed, recording)
        scheduler = Scheduler(config, connections, clock, metrics, leadership, scheduler_options)
        if serving.secure_port:
            checks = health_checks(scheduler, {"main-loop": heartbeat.check}, healthz)
            pages = endpoints.pages(checks, scheduler, clock, process_flags.flags)
            await stack.enter_async_context(endpoints.serve_in_thread(serving, pages, connection, clock))
        endpoints.dump_on_signal(scheduler, clock)
        if source is not None:
            await stack.enter_async_context(Reloader(source, scheduler, clock))
        profiles = ", ".join(scheduler.names)
        server, form = connection.server, kernels.FORM
        log.info("Scheduling", version=__version__, profiles=profiles, server=server, kernels=form, batch=batch)
        try:
            await scheduler.run()
        except LeaseLost as lost:
            log.error("Leaderelection lost", lost)
            return 1
    return 0


def health_checks(scheduler: Scheduler, live: Mapping[str, Check], healthz: Mapping[str, Check]) -> Checks:
    """Return the checks of /livez, /healthz and /readyz."""

    def informers() -> str | None:
        missing = scheduler.unsynced
        return f"not listed yet: {missing}" if missing else None

    def watches() -> str | None:
        return f"not watched: {unwatched}" if (unwatched := scheduler.unwatched) else None

    def shutdown() -> str | None:
        return "the scheduler is stopping" if scheduler.stopping else None

    # kube-scheduler has both names; here listed objects have also passed through the event handlers.
    ready = {"informer-sync": informers, "sched-handler-sync": informers, "watch": watches, "shutdown": shutdown}
    return Checks(live, healthz, ready)
