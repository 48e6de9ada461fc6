"""`pyscheduler up`: a test cluster with API server, hollow nodes, controllers and scheduler in one process."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path

import click
import yaml
from rich.console import Console

from pyscheduler.api.quantity import QuantityError, value
from pyscheduler.cli import options
from pyscheduler.cli.manifest_files import Manifest, apply, read_manifests
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.cli.progress import WorkloadProgress, current_progress, node_table, pending_reason
from pyscheduler.cli.run import until_signalled
from pyscheduler.cli.sections import SectionedCommand, option
from pyscheduler.clock import SystemClock
from pyscheduler.config.gates import FeatureGates
from pyscheduler.config.load import load, loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.controllers.operator import PodGroupOperator
from pyscheduler.data import EXAMPLES
from pyscheduler.embedded.cluster import EmbeddedCluster
from pyscheduler.embedded.hollow import node_templates
from pyscheduler.kube.connection import ConnectionOptions, connect
from pyscheduler.shell.heartbeat import Heartbeat
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.scheduler import Connections, Scheduler
from pyscheduler.shell.watchdog import Watchdog

_PROFILE = """
- schedulerName: {name}
  plugins:
    queueSort: {{disabled: [{{name: "*"}}], enabled: [{{name: QoSSort}}]}}
    multiPoint: {{enabled: [{{name: Gang}}]}}"""
_HEAD = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}"
)
_POLL_SECONDS = 0.1
_CLUSTER, _WORKLOADS = "Cluster", "Workloads"
_ZONES = ("zone-1", "zone-2", "zone-3")
"""Zones of the hollow nodes in turn, so that manifests that spread over zones can be tried."""
_NAMES = ("pyscheduler", "default-scheduler")


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Options of `up`."""

    nodes: int
    node_cpu: str
    node_memory: str
    port: int
    apply: tuple[Path, ...]
    config: Path | None
    manifests: list[Manifest]
    kubeconfig_out: Path | None
    once: bool
    timeout: float


@click.command(cls=SectionedCommand)
@option("--nodes", section=_CLUSTER, type=click.IntRange(min=1), default=3, metavar="N", help="Number of hollow nodes.")
@option("--node-cpu", section=_CLUSTER, default="4", metavar="Q", help="CPU of each node.")
@option("--node-memory", section=_CLUSTER, default="32Gi", metavar="Q", help="Memory of each node.")
@option(
    "--apply",
    "paths",
    section=_WORKLOADS,
    type=options.FILE,
    multiple=True,
    metavar="FILE",
    help="Create the objects of a manifest file or folder. May be repeated.",
)
@option(
    "--config",
    section=options.CONFIGURATION,
    type=options.FILE,
    metavar="FILE",
    help="KubeSchedulerConfiguration file (default: the default profile with QoSSort and Gang).",
)
@option(
    "--kubeconfig-out",
    section=_CLUSTER,
    type=options.WRITABLE,
    metavar="FILE",
    help="Write a kubeconfig for kubectl to FILE.",
)
@option(
    "--port",
    section=_CLUSTER,
    type=options.PORT,
    default=0,
    metavar="P",
    help="Port of the API server; 0 uses a free one.",
)
@option("--once", section=_WORKLOADS, is_flag=True, help="Exit when every pod is bound or final.")
@option(
    "--timeout",
    section=_WORKLOADS,
    type=options.SECONDS,
    default=60.0,
    metavar="S",
    help="With --once: exit after this many seconds at the latest.",
)
@options.feature_gates
@options.verbosity
@options.logging_format
def up(
    nodes: int,
    node_cpu: str,
    node_memory: str,
    paths: tuple[Path, ...],
    config: Path | None,
    kubeconfig_out: Path | None,
    port: int,
    once: bool,
    timeout: float,
    feature_gates: tuple[str, ...],
    verbosity: int,
    logging_format: str,
) -> None:
    """Start a cluster in this process: API server, hollow nodes, controllers and the scheduler.

    It schedules pods with the schedulerName `pyscheduler` or `default-scheduler`. Hollow nodes run no containers.

    \b
    Start a cluster, and use it from another terminal:
      pyscheduler up --nodes 5 --kubeconfig-out kubeconfig
      kubectl --kubeconfig kubeconfig apply -f deployment.yaml

    \b
    Place the pods of manifests, show where they are, and exit:
      pyscheduler up --apply manifests/examples --once
    """
    _check_quantity("--node-cpu", node_cpu)
    _check_quantity("--node-memory", node_memory)
    options.logging(logging_format, verbosity, quiet=not verbosity)  # log lines would disturb the table
    manifests = read_manifests(paths)
    flags = UpOptions(nodes, node_cpu, node_memory, port, paths, config, manifests, kubeconfig_out, once, timeout)
    on = options.gates(feature_gates)
    configuration = load(config, on) if config else _default_config(on)
    sys.exit(options.run_async(_up(flags, configuration)))


def _check_quantity(option: str, text: str) -> None:
    """Raise BadParameter if the option is not a quantity of at least 0."""
    try:
        is_negative = value(text) < 0
    except QuantityError as problem:
        raise click.BadParameter(str(problem), param_hint=option) from None
    if is_negative:
        raise click.BadParameter(f"{text!r} is negative: write a quantity such as 500m, 2 or 1.5Gi", param_hint=option)


def _default_config(gates: FeatureGates) -> LoadedConfig:
    """Return profiles with QoSSort and Gang for both names."""
    return loads(f"{_HEAD}\nprofiles:" + "".join(_PROFILE.format(name=name) for name in _NAMES), gates=gates)


async def _up(flags: UpOptions, config: LoadedConfig) -> int:
    console, clock, metrics = Console(), SystemClock(), Metrics()
    async with AsyncExitStack() as stack:
        stack.enter_context(Watchdog(await stack.enter_async_context(Heartbeat(clock)), metrics))
        cluster = await stack.enter_async_context(
            EmbeddedCluster(
                node_templates(flags.nodes, cpu=flags.node_cpu, memory=flags.node_memory, zones=_ZONES), port=flags.port
            )
        )
        apply(cluster.server.api, _builtin())
        apply(cluster.server.api, flags.manifests)
        scheduler = Scheduler(config, await _connections(stack, cluster), clock, metrics)
        await stack.enter_async_context(PodGroupOperator(cluster.kubeconfig, volcano_schedulers=scheduler.names))
        console.print(_greeting(flags, cluster.url, scheduler.names), soft_wrap=True, highlight=False)
        kubeconfig = _kubeconfig(cluster, flags.kubeconfig_out)
        working = asyncio.create_task(until_signalled(scheduler))
        try:
            return await _watch(console, cluster, working, flags, kubeconfig)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


def _greeting(flags: UpOptions, url: str, names: Sequence[str]) -> str:
    return f"A cluster of {flags.nodes} hollow nodes at {url}, with a scheduler for {' and '.join(names)}"


def _builtin() -> list[Manifest]:
    """Return the CustomResourceDefinitions that the bundled plugins need."""
    folder = resources.files("pyscheduler.controllers") / "crds"
    # In the order of their names, so that `kubectl get podgroups` means those of scheduling.x-k8s.io.
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return [Manifest(f.name, yaml.safe_load(f.read_text(encoding="utf-8"))) for f in files]


async def _connections(stack: AsyncExitStack, cluster: EmbeddedCluster) -> Connections:
    connection = await connect(cluster.kubeconfig, ConnectionOptions(qps=-1))
    stack.push_async_callback(connection.close)
    connections = Connections.to_server_of(connection)
    stack.push_async_callback(connections.close)
    return connections


def _kubeconfig(cluster: EmbeddedCluster, out: Path | None) -> Path:
    if out is None:
        return cluster.kubeconfig
    try:
        shutil.copyfile(cluster.kubeconfig, out)
    except OSError as error:
        raise CommandProblem(
            f"--kubeconfig-out: {out}: {error.strerror or error}; name a file in a folder that you can write to"
        ) from None
    return out


async def _watch(
    console: Console, cluster: EmbeddedCluster, working: asyncio.Task[None], flags: UpOptions, kubeconfig: Path
) -> int:
    """Show progress until all pods are placed (without --once: until a signal); return the exit code."""
    show = partial(console.print, soft_wrap=True, highlight=False)
    progress = await _until_placed(console, cluster, working, flags)
    console.print(node_table(cluster.server.api))
    if not progress.done:
        for pod in progress.unbound:
            show(pending_reason(pod), style="red")
    if flags.once:
        commands = f"{_command_without_once(flags)}\n  {_kubectl('kubeconfig')}"
        show(f"Keep it running, and look at it from another terminal:\n  {commands}")
        return 0 if progress.done else 1
    examples = "" if flags.apply else f"\n  kubectl --kubeconfig {kubeconfig} apply -f {EXAMPLES}"
    show(f"Use it from another terminal; Ctrl-C ends it:{examples}\n  {_kubectl(kubeconfig)}")
    await working
    return 0


def _command_without_once(flags: UpOptions) -> str:
    """Return the command line that starts the same cluster without --once."""
    program = os.path.relpath(sys.argv[0]) if os.path.isabs(sys.argv[0]) else sys.argv[0]
    size = f"--nodes {flags.nodes} --node-cpu {flags.node_cpu} --node-memory {flags.node_memory}"
    applied = "".join(f" --apply {path}" for path in flags.apply)
    config = f" --config {flags.config}" if flags.config else ""
    return f"{program} up {size}{applied}{config} --kubeconfig-out kubeconfig"


def _kubectl(kubeconfig: str | Path) -> str:
    return f"kubectl --kubeconfig {kubeconfig} get pods -A -o wide"


async def _until_placed(
    console: Console, cluster: EmbeddedCluster, working: asyncio.Task[None], flags: UpOptions
) -> WorkloadProgress:
    clock = SystemClock()
    deadline = clock.now() + flags.timeout
    shown = ""
    with console.status("Starting") as status:
        while True:
            progress = current_progress(cluster.server.api)
            if progress.done or working.done() or clock.now() > deadline:
                return progress
            if progress.line != shown:
                shown = progress.line
                status.update(shown)
                if not console.is_terminal:
                    console.print(shown, soft_wrap=True, highlight=False)
            await clock.sleep(_POLL_SECONDS)
