"""`pyscheduler up`: a test cluster with API server, hollow nodes, controllers and scheduler in one process."""

from __future__ import annotations

import asyncio
import os
import random
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from click.core import ParameterSource
from rich.console import Console

from pyscheduler.api.counts import counted
from pyscheduler.api.quantity import QuantityError, value
from pyscheduler.cli import options
from pyscheduler.cli.cluster_dump import read_dumps
from pyscheduler.cli.cluster_file import read_cluster_file
from pyscheduler.cli.manifest_files import Manifest, apply, read_manifests
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.cli.progress import WorkloadProgress, current_progress, node_table, pending_reason
from pyscheduler.cli.sections import SectionedCommand, option
from pyscheduler.cli.stop_signals import STOP_SIGNALS, until_signalled
from pyscheduler.cli.up_objects import crds, storage_classes
from pyscheduler.cli.up_outputs import check_kubeconfig, copy_kubeconfig, write_snapshot
from pyscheduler.cli.up_scheduler import InProcessScheduler, SchedulerCommand, StartedScheduler, no_scheduler
from pyscheduler.cli.up_watch import after_changes, watch_cluster
from pyscheduler.clock import SystemClock
from pyscheduler.config.gates import FeatureGates
from pyscheduler.config.load import load, loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.data import EXAMPLES
from pyscheduler.embedded import Api
from pyscheduler.embedded.cluster import EmbeddedCluster
from pyscheduler.embedded.hollow.pools import POOLS_CONFIG_MAP, NodePool, pools_config_map
from pyscheduler.embedded.snapshot import RestoreError, RestoreSummary, restore_objects
from pyscheduler.shell.heartbeat import Heartbeat
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.watchdog import Watchdog

_PROFILE = """
- schedulerName: {name}
  plugins:
    queueSort: {{disabled: [{{name: "*"}}], enabled: [{{name: QoSSort}}]}}
    multiPoint: {{enabled: [{{name: Gang}}]}}"""
_HEAD = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}"
)
_CLUSTER, _STATE, _SCHEDULER, _WORKLOADS = "Cluster", "State", "Scheduler", "Workloads"
_ZONES = ("zone-1", "zone-2", "zone-3")
"""Zones of the hollow nodes in turn, so that manifests that spread over zones can be tried."""
_SHOWN_PENDING: Final = 50
_SIZE_FLAGS: Final = {"nodes": "--nodes", "node_cpu": "--node-cpu", "node_memory": "--node-memory"}


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Options of `up`."""

    nodes: int
    node_cpu: str
    node_memory: str
    cluster: Path | None
    port: int
    kubeconfig_out: Path | None
    seed: int | None
    load: tuple[Path, ...]
    restore: Path | None
    snapshot: Path | None
    config: Path | None
    no_scheduler: bool
    scheduler_command: str | None
    secure_port: int
    apply: tuple[Path, ...]
    watch: bool
    once: bool
    timeout: float
    feature_gates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Validated contents of the files and values of the options."""

    manifests: list[Manifest]
    pools: list[NodePool]
    api: Api
    restored: RestoreSummary
    scheduler: InProcessScheduler | SchedulerCommand | None


@click.command(cls=SectionedCommand)
@option(
    "--nodes",
    section=_CLUSTER,
    type=options.IntegerRange(min=1),
    default=3,
    metavar="N",
    help="Number of hollow nodes.",
)
@option("--node-cpu", section=_CLUSTER, default="4", metavar="Q", help="CPU of each node.")
@option("--node-memory", section=_CLUSTER, default="32Gi", metavar="Q", help="Memory of each node.")
@option(
    "--cluster",
    section=_CLUSTER,
    type=options.FILE,
    metavar="FILE",
    help="Node pools with zones, labels, taints and devices, instead of the options above.",
)
@option(
    "--port",
    section=_CLUSTER,
    type=options.PORT,
    default=0,
    metavar="P",
    help="Port of the API server; 0 uses a free one.",
)
@option(
    "--kubeconfig-out",
    section=_CLUSTER,
    type=options.WRITABLE,
    metavar="FILE",
    help="Write a kubeconfig for kubectl to FILE.",
)
@option(
    "--seed",
    section=_CLUSTER,
    type=options.IntegerRange(0, 2**63 - 1),
    metavar="N",
    help="Seed of generated names, UIDs and the scheduler's tie-breaking.",
)
@option(
    "--load",
    section=_STATE,
    type=options.FILE,
    multiple=True,
    metavar="FILE",
    help="Load a dump of another cluster: `kubectl get -o yaml` or a `cluster-info dump` folder. May be repeated.",
)
@option("--restore", section=_STATE, type=options.FILE, metavar="FILE", help="Continue from a snapshot.")
@option(
    "--snapshot", section=_STATE, type=options.WRITABLE, metavar="FILE", help="Write all objects to FILE at the end."
)
@option(
    "--config",
    section=_SCHEDULER,
    type=options.FILE,
    metavar="FILE",
    help="KubeSchedulerConfiguration file (default: the default profile with QoSSort and Gang).",
)
@option("--no-scheduler", section=_SCHEDULER, is_flag=True, help="Start no scheduler: start one of your own.")
@option(
    "--scheduler-command",
    section=_SCHEDULER,
    metavar="CMD",
    help="Run another scheduler: KUBECONFIG is set, and {kubeconfig} in CMD replaced by its path.",
)
@option(
    "--secure-port",
    section=_SCHEDULER,
    type=options.PORT,
    default=0,
    metavar="P",
    help="Port of the scheduler's metrics and debug endpoints; 0 uses a free one.",
)
@option(
    "--apply",
    section=_WORKLOADS,
    type=options.FILE,
    multiple=True,
    metavar="FILE",
    help="Create the objects of a manifest file or folder. May be repeated.",
)
@option("--watch", section=_WORKLOADS, is_flag=True, help="Show nodes and pods as they change, until Ctrl-C.")
@option(
    "--once", section=_WORKLOADS, is_flag=True, help="Exit when every pod is bound or final; code 1 after --timeout."
)
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
def up(feature_gates: tuple[str, ...], verbosity: int, logging_format: str, **values: Any) -> None:
    """Start a cluster in this process: API server, hollow nodes, controllers and the scheduler.

    It schedules pods with the schedulerName `pyscheduler` or `default-scheduler`. Hollow nodes run no containers.

    \b
    Start a cluster, and use it from another terminal:
      pyscheduler up --nodes 5 --kubeconfig-out kubeconfig --watch
      kubectl --kubeconfig kubeconfig apply -f deployment.yaml
      pyscheduler nodes add --count 2 --kubeconfig kubeconfig

    \b
    Place the pods of manifests, show where they are, and exit:
      pyscheduler up --apply "$(pyscheduler manifests examples)" --once

    \b
    Node pools with zones, GPUs and taints; the file has an example of every field:
      pyscheduler up --cluster "$(pyscheduler manifests config)/clusters/gpu.yaml"

    \b
    Load the nodes and pods of a real cluster, and save the state at the end:
      kubectl get nodes,pods,priorityclasses,pdb -A -o yaml > dump.yaml
      pyscheduler up --load dump.yaml --snapshot state.json
      pyscheduler up --restore state.json

    \b
    Try another scheduler:
      pyscheduler up --scheduler-command "kube-scheduler --kubeconfig {kubeconfig} --leader-elect=false"
    """
    flags = UpOptions(**values, feature_gates=feature_gates)
    _check_quantity("--node-cpu", flags.node_cpu)
    _check_quantity("--node-memory", flags.node_memory)
    context = click.get_current_context()
    given = {name for name in values if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    given |= {"feature_gates"} if feature_gates else set()
    _check_combinations(given)
    options.logging(logging_format, verbosity, quiet=not verbosity)  # log lines would disturb the table
    gates = options.gates(feature_gates)
    inputs = _read_inputs(flags, given, gates, context)
    sys.exit(options.run_async(_up(flags, inputs)))


def _check_combinations(given: set[str]) -> None:
    """Raise UsageError for options that contradict each other."""
    size, own = list(_SIZE_FLAGS), ["config", "feature_gates", "secure_port"]
    pairs = [
        *(("cluster", name) for name in size),
        ("load", "restore"),
        ("no_scheduler", "scheduler_command"),
        *((other, name) for other in ("no_scheduler", "scheduler_command") for name in own),
    ]
    for first, second in pairs:
        if {first, second} <= given:
            both = " and ".join(f"--{name.replace('_', '-')}" for name in (first, second))
            raise click.UsageError(f"{both} cannot be used together")


def _read_inputs(flags: UpOptions, given: set[str], gates: FeatureGates, context: click.Context) -> _Inputs:
    """Read all files and store the loaded objects. CommandProblem, ConfigError."""
    if flags.kubeconfig_out is not None:
        check_kubeconfig(flags.kubeconfig_out)
    scheduler = _scheduler(flags, gates, context)
    manifests = read_manifests(flags.apply)
    pools = [] if flags.cluster is None else read_cluster_file(flags.cluster)
    api, restored = _new_api(flags.seed), RestoreSummary()
    apply(api, crds())
    files = flags.load or ((flags.restore,) if flags.restore else ())
    if files:
        with Console(stderr=True).status(f"Loading {', '.join(map(str, files))}"):
            try:
                restored = restore_objects(api, read_dumps(files))
            except RestoreError as problem:
                raise CommandProblem(str(problem)) from None
    if flags.cluster is None and (not restored.stored["Node"] or given & _SIZE_FLAGS.keys()):
        amounts = {"cpu": flags.node_cpu, "memory": flags.node_memory, "pods": "110"}
        pools = [NodePool("node", flags.nodes, amounts, zones=_ZONES)]
    return _Inputs(manifests, pools, api, restored, scheduler)


def _scheduler(
    flags: UpOptions, gates: FeatureGates, context: click.Context
) -> InProcessScheduler | SchedulerCommand | None:
    if flags.no_scheduler:
        return None
    if flags.scheduler_command is not None:
        return SchedulerCommand(flags.scheduler_command)
    config = load(flags.config, gates) if flags.config else _default_config(gates)
    if flags.seed is not None:
        config = msgspec.structs.replace(config, python=msgspec.structs.replace(config.python, seed=flags.seed))
    from pyscheduler.controllers.operator import PodGroupOperator  # imports kopf, which other schedulers need not

    return InProcessScheduler(config, flags.secure_port, partial(options.all_flags, context), PodGroupOperator)


def _new_api(seed: int | None) -> Api:
    return Api() if seed is None else Api(rng=random.Random(seed))


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
    profiles = "".join(_PROFILE.format(name=name) for name in options.SCHEDULER_NAMES)
    return loads(f"{_HEAD}\nprofiles:{profiles}", gates=gates)


async def _up(flags: UpOptions, inputs: _Inputs) -> int:
    console, clock, metrics = Console(), SystemClock(), Metrics()
    async with AsyncExitStack() as stack:
        heartbeat = await stack.enter_async_context(Heartbeat(clock))
        stack.enter_context(Watchdog(heartbeat, metrics))
        templates = [template for pool in inputs.pools for template in pool.templates()]
        if not inputs.restored.stored:
            apply(inputs.api, storage_classes(inputs.manifests))
        apply(inputs.api, inputs.manifests)
        cluster = await stack.enter_async_context(EmbeddedCluster(templates, port=flags.port, api=inputs.api))
        if flags.snapshot is not None:
            stack.callback(write_snapshot, inputs.api, flags.snapshot)
        _store_pools(inputs.api, inputs.pools)
        scheduler = await _start_scheduler(stack, cluster, inputs.scheduler, (clock, metrics, heartbeat))
        _print_greeting(console, cluster, scheduler, inputs.restored)
        if flags.kubeconfig_out is not None:
            copy_kubeconfig(cluster.kubeconfig, flags.kubeconfig_out)
        working = asyncio.create_task(until_signalled(scheduler.main, (*STOP_SIGNALS, signal.SIGHUP)))
        await asyncio.sleep(0)  # it handles signals before the output offers Ctrl-C
        try:
            return await _show(console, cluster, working, flags, flags.kubeconfig_out or cluster.kubeconfig)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


async def _start_scheduler(
    stack: AsyncExitStack,
    cluster: EmbeddedCluster,
    scheduler: InProcessScheduler | SchedulerCommand | None,
    shared: tuple[SystemClock, Metrics, Heartbeat],
) -> StartedScheduler:
    if scheduler is None:
        return no_scheduler()
    if isinstance(scheduler, SchedulerCommand):
        return await scheduler.start(stack, cluster.kubeconfig)
    return await scheduler.start(stack, cluster, *shared)


def _print_greeting(
    console: Console, cluster: EmbeddedCluster, scheduler: StartedScheduler, restored: RestoreSummary
) -> None:
    show = partial(console.print, soft_wrap=True, highlight=False, markup=False)
    nodes = len(cluster.server.api.list(cluster.server.api.resource("nodes")).items)
    show(f"A cluster of {counted(nodes, 'hollow node')} at {cluster.url}, {scheduler.description}")
    if scheduler.endpoints:
        show(f"Its metrics and debug endpoints (curl -k): {scheduler.endpoints}/metrics, /debug/queue, /debug/cache")
    if restored.stored:
        counts = ", ".join(f"{kind} {count}" for kind, count in restored.stored.most_common())
        show(f"Loaded {counted(restored.stored.total(), 'object')}: {counts}")
    if restored.without_owner:
        show(f"Removed the owners of {counted(restored.without_owner, 'object')}, because they are not in the files")
    for kind, count in restored.not_served.items():
        show(f"Left out {count} of {kind}: the kind is not served, and its definition is not in the files")


def _store_pools(api: Api, pools: Sequence[NodePool]) -> None:
    """Add the pools to the ConfigMap from which `nodes add` reads them."""
    config_map = pools_config_map(pools)
    stored = api.state.store.get("configmaps", POOLS_CONFIG_MAP)
    if stored is not None:
        config_map["data"] = {**(stored.object.get("data") or {}), **config_map["data"]}
    api.restore(api.resource("configmaps"), config_map)
    api.run_controllers()


async def _show(
    console: Console, cluster: EmbeddedCluster, working: asyncio.Task[None], flags: UpOptions, kubeconfig: Path
) -> int:
    """Show progress until all pods are placed (without --once: until a signal); return the exit code."""
    show = partial(console.print, soft_wrap=True, highlight=False)
    if flags.watch and not flags.once:
        show(f"Use it from another terminal; Ctrl-C ends it:\n  {_kubectl(kubeconfig)}")
        await watch_cluster(console, cluster.server.api, SystemClock(), working.done)
        await working
        return 0
    progress = await _until_placed(console, cluster, working, flags)
    if working.done():
        await working  # a scheduler that has failed is the reason why pods have no node
    console.print(node_table(cluster.server.api))
    if not progress.done:
        for pod in progress.unbound[:_SHOWN_PENDING]:
            show(pending_reason(pod), style="red")
        if len(progress.unbound) > _SHOWN_PENDING:
            more = counted(len(progress.unbound) - _SHOWN_PENDING, "more pod")
            show(f"... and {more} without a node", style="red")
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
    size = ["--nodes", str(flags.nodes), "--node-cpu", flags.node_cpu, "--node-memory", flags.node_memory]
    if flags.cluster is not None:
        size = ["--cluster", str(flags.cluster)]
    elif flags.load or flags.restore:
        size = []
    chosen = {"restore": flags.restore, "config": flags.config, "scheduler-command": flags.scheduler_command}
    words = [*_program(), "up", *size]
    words += [word for path in flags.load for word in ("--load", str(path))]
    words += [word for path in flags.apply for word in ("--apply", str(path))]
    words += [word for name, value in chosen.items() if value for word in (f"--{name}", str(value))]
    words += [] if flags.seed is None else ["--seed", str(flags.seed)]
    words += ["--no-scheduler"] * flags.no_scheduler
    words += [word for gates in flags.feature_gates for word in ("--feature-gates", gates)]
    return shlex.join([*words, "--kubeconfig-out", "kubeconfig"])


def _program() -> list[str]:
    """Return the words that start this program."""
    program = sys.argv[0]
    if Path(program).name == "__main__.py":
        return [Path(sys.executable).name, "-m", "pyscheduler"]
    return [os.path.relpath(program) if os.path.isabs(program) else program]


def _kubectl(kubeconfig: str | Path) -> str:
    return f"kubectl --kubeconfig {kubeconfig} get pods -A -o wide"


async def _until_placed(
    console: Console, cluster: EmbeddedCluster, working: asyncio.Task[None], flags: UpOptions
) -> WorkloadProgress:
    api, clock = cluster.server.api, SystemClock()
    deadline = clock.now() + flags.timeout

    def is_over() -> bool:
        return working.done() or clock.now() > deadline

    if flags.watch:
        await watch_cluster(console, api, clock, is_over, lambda: current_progress(api).done)
        return current_progress(api)
    shown = ""
    with console.status("Starting") as status:

        def show_progress() -> bool:
            nonlocal shown
            progress = current_progress(api)
            if progress.line != shown and not progress.done:
                shown = progress.line
                status.update(shown)
                if not console.is_terminal:
                    console.print(shown, soft_wrap=True, highlight=False)
            return progress.done

        await after_changes(api, clock, show_progress, is_over)
    return current_progress(api)
