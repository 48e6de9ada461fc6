"""`pyscheduler bench plugin`: cost of a plugin's calls, and of a whole decision with it."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
from rich.table import Table

from pyscheduler.api import (
    Cycle,
    FilterPlugin,
    NodeTable,
    PermitPlugin,
    Plugin,
    Pod,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    Skip,
)
from pyscheduler.api.counts import counted
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.cli.plugin_reads import infer_reads
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.config.build import build_profiles
from pyscheduler.config.discover import installed, is_import_path
from pyscheduler.config.load import loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError, Report
from pyscheduler.core.commands import Bind
from pyscheduler.core.events import Bound, NodeChanged, PodChanged, PodGone
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.plugin_failure import code_line, describe
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.machine import Machine
from pyscheduler.intree import DEFAULT_MULTIPOINT

Json = dict[str, Any]
_ROUNDS: Final = 5
_MIN_SECONDS: Final = 0.02
"""Least CPU time of a measurement in seconds."""
_MEASURED: Final = ("preEnqueue", "preFilter", "filter", "preScore", "score", "reserve", "permit")
"""Extension points that are part of a decision, for which `_calls` measures the call."""
_EXCLUSIVE: Final = ("queueSort", "bind", "quota")
"""Extension points at which a further plugin, or one less, makes the default profile invalid."""
_ZONES: Final = 10
_PODS_OF_A_ROUND: Final = 50


@dataclass(frozen=True)
class CostMeasurement:
    """Measurement to run: plugin and args, number of nodes, and manifests of pod and node."""

    plugin: str
    args: Json
    nodes: int
    pod: Json
    node: Json


@dataclass(frozen=True)
class CallCost:
    """Cost of an extension point in microseconds: a call for one node or pod, and both forms for all nodes."""

    point: str
    once: float
    plain: float | None = None
    columns: float | None = None


@dataclass(frozen=True)
class Cost:
    """Measured cost of a plugin; decisions in microseconds."""

    name: str
    calls: tuple[CallCost, ...]
    baseline: float
    with_plugin: float
    reads: Reads | None
    minimal_reads: Reads | None
    """Smallest sufficient claim, if it is smaller than `reads`."""
    with_minimal_reads: float | None


def measure(request: CostMeasurement) -> Cost:
    """Measure a plugin. ConfigError or CommandProblem if it cannot be used."""
    cluster = _BenchmarkCluster(_config(request, enabled=True), request)
    plugin, pod, table = cluster.plugin(request.plugin), cluster.pod(), cluster.machine.context.state.table()
    try:
        calls = tuple(_calls(plugin, pod, table))
    except Exception as error:
        raise _failed(plugin.name, error) from None
    clusters = {"without": _BenchmarkCluster(_config(request, enabled=False), request), "with": cluster}
    reads, minimal = getattr(plugin, "reads", None), infer_reads(plugin, pod, table)
    if reads is None or minimal is None or minimal >= reads:
        minimal = None
    else:
        clusters["minimal"] = _BenchmarkCluster(_config(request, enabled=True), request, minimal)
    took = _decisions(clusters)
    return Cost(plugin.name, calls, took["without"], took["with"], reads, minimal, took.get("minimal"))


def _failed(plugin: str, error: BaseException) -> CommandProblem:
    """Return the error of a plugin that failed: its costs would be those of failed attempts."""
    hint = "mend it, or give the input that it needs with --args, --pod and --node"
    return CommandProblem(f"plugin {plugin} failed: {describe(error)} ({code_line(error)}); {hint}")


class _FailureRecorder(Instrument):
    """Instrument that keeps the first failure of a plugin: of an exception, or of a result that is not valid."""

    failure: tuple[str, BaseException] | None = None

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:  # noqa: ARG002 - an override
        self.failure = self.failure or (plugin, error)


def _points(plugin: str) -> Sequence[str]:
    """Return the points at which the configurations enable a plugin. CommandProblem if none of them can be measured."""
    report = Report()
    catalogue = installed(report)
    found = catalogue.import_plugin(plugin, "", report) if is_import_path(plugin) else catalogue.registry.get(plugin)
    if found is None:
        return ("multiPoint",)  # the error of the configuration is raised
    if not any(point in _MEASURED for point in found.points):
        points = f"it has {' and '.join(found.points)} only, and `bench plugin` measures {', '.join(_MEASURED)}"
        raise CommandProblem(f"plugin {found.name} cannot be measured: {points}")
    others = [point for point in found.points if point not in _EXCLUSIVE]
    return ("multiPoint",) if len(others) == len(found.points) else others


def _config(request: CostMeasurement, enabled: bool) -> LoadedConfig:
    """Return the default profile with or without the plugin."""
    points = _points(request.plugin)
    is_default = request.plugin in dict(DEFAULT_MULTIPOINT)
    profile: Json = {}
    if enabled != is_default:
        change = {"enabled" if enabled else "disabled": [{"name": request.plugin}]}
        profile["plugins"] = dict.fromkeys(points, change)
    if enabled and request.args:
        profile["pluginConfig"] = [{"name": request.plugin, "args": request.args}]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    try:
        return loads(json.dumps({**kind, "profiles": [profile]}))
    except ConfigError as error:
        problem = error.problems[0]
        if not problem.path.endswith(".name"):  # the place of other errors is in the args
            raise
        hint = "`pyscheduler plugins list` shows all; module:Class names a class of a file in this folder"
        raise CommandProblem(f"{problem.message}; {hint}") from None


class _BenchmarkCluster:
    """Machine with nodes that schedules pods of one template."""

    def __init__(self, config: LoadedConfig, request: CostMeasurement, reads: Reads | None = None) -> None:
        """`reads` overrides the claim of the measured plugin."""
        self._request = request
        self._reads = reads
        self._recorder = _FailureRecorder()
        self.machine = Machine(partial(self._build_profiles, config), self._recorder)
        (self.profile,) = self.machine.context.profiles.values()
        self._created = 0
        for i in range(request.nodes):
            self.machine.handle(NodeChanged(0.0, _node(request.node, i)))

    def plugin(self, name: str) -> Plugin:
        """Return the measured plugin, by its name or its import path."""
        return _plugin_of(self.profile, name)

    def _build_profiles(self, config: LoadedConfig, handle: CoreHandle) -> tuple[Profile, ...]:
        (profile,) = build_profiles(config, handle)
        if self._reads is not None:
            plugin = _plugin_of(profile, self._request.plugin)
            plugin.__class__ = type(type(plugin).__name__, (type(plugin),), {"reads": self._reads})
        return (profile,)

    def pod(self) -> Pod:
        """Return a pod of the template."""
        return self.machine.context.shapes.pod(self._object("sample"))

    def decide(self, pods: int) -> float:
        """Schedule and remove pods; return the CPU time of one decision in microseconds.

        CommandProblem if a plugin fails.
        """
        names = [f"pod-{self._created + i}" for i in range(pods)]
        self._created += pods
        for name in names:
            self.machine.handle(PodChanged(0.0, self._object(name)))
        began = time.process_time()
        commands = [command for _ in names for command in self.machine.cycle(0.0) or ()]
        took = time.process_time() - began
        if self._recorder.failure is not None:
            raise _failed(*self._recorder.failure)
        for command in commands:
            if isinstance(command, Bind):
                self.machine.handle(Bound(0.0, command.pod.uid))
        for name in names:
            self.machine.handle(PodGone(0.0, "default", name, name))
        return took / pods * 1e6

    def _object(self, name: str) -> PodObject:
        pod = self._request.pod
        metadata = {**(pod.get("metadata") or {}), "name": name, "uid": name, "namespace": "default"}
        spec = {"containers": [{"name": "main"}], **(pod.get("spec") or {}), "schedulerName": self.profile.name}
        return msgspec.convert({"metadata": metadata, "spec": spec}, PodObject)


def _plugin_of(profile: Profile, name: str) -> Plugin:
    """Return a plugin of the profile by its name or its import path."""
    by_path = {f"{type(p).__module__}:{type(p).__qualname__}": p for p in profile.plugins}
    return by_path.get(name) or next(p for p in profile.plugins if p.name == name)


def _node(template: Json, i: int) -> NodeObject:
    metadata = template.get("metadata") or {}
    place = {"kubernetes.io/hostname": f"node-{i}", "topology.kubernetes.io/zone": f"zone-{i % _ZONES}"}
    labels = {**(metadata.get("labels") or {}), **place}
    status = {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}} | (template.get("status") or {})
    node = {**template, "metadata": {**metadata, "name": f"node-{i}", "labels": labels}, "status": status}
    return msgspec.convert(node, NodeObject)


def _decisions(clusters: Mapping[str, _BenchmarkCluster]) -> dict[str, float]:
    """Return microseconds per decision in each cluster, measured in turns so that noise affects all equally."""
    pods = {name: _sample_size(cluster) for name, cluster in clusters.items()}
    rounds = [{name: cluster.decide(pods[name]) for name, cluster in clusters.items()} for _ in range(_ROUNDS)]
    return {name: statistics.median(each[name] for each in rounds) for name in clusters}


def _sample_size(cluster: _BenchmarkCluster) -> int:
    """Return the number of pods that take about the least CPU time of a measurement."""
    cluster.decide(2)  # warm-up: the first decisions are slower
    return max(5, min(_PODS_OF_A_ROUND, int(_MIN_SECONDS * 1e6 / max(1.0, cluster.decide(5)))))


def _calls(plugin: Plugin, pod: Pod, nodes: NodeTable) -> Iterator[CallCost]:
    """Measure the call of each extension point that is part of a decision and that the plugin implements."""
    cycle, node = Cycle(0.0, "default-scheduler", pod.uid), next(iter(nodes))
    if isinstance(plugin, PreEnqueuePlugin):
        yield CallCost("PreEnqueue", _timed(lambda: plugin.pre_enqueue(pod)))
    if isinstance(plugin, PreFilterPlugin):
        yield CallCost("PreFilter", _timed(lambda: plugin.pre_filter(cycle, pod, nodes)))
    is_skipped = isinstance(plugin, PreFilterPlugin) and isinstance(plugin.pre_filter(cycle, pod, nodes), Skip)
    if isinstance(plugin, FilterPlugin) and not is_skipped:
        plain = _timed(lambda: [plugin.filter(cycle, pod, each) for each in nodes])
        own = type(plugin).filter_all is not FilterPlugin.filter_all
        columns = _timed(lambda: plugin.filter_all(cycle, pod, nodes)) if own else None
        yield CallCost("Filter", plain / len(nodes), plain, columns)
    if isinstance(plugin, PreScorePlugin):
        yield CallCost("PreScore", _timed(lambda: plugin.pre_score(cycle, pod, nodes)))
    is_skipped = isinstance(plugin, PreScorePlugin) and isinstance(plugin.pre_score(cycle, pod, nodes), Skip)
    if isinstance(plugin, ScorePlugin) and not is_skipped:
        plain = _timed(lambda: [plugin.score(cycle, pod, each) for each in nodes])
        own = type(plugin).score_all is not ScorePlugin.score_all
        columns = _timed(lambda: plugin.score_all(cycle, pod, nodes)) if own else None
        yield CallCost("Score", plain / len(nodes), plain, columns)
        scores = plugin.score_all(cycle, pod, nodes)
        yield CallCost("NormalizeScore", _timed(lambda: plugin.normalize(cycle, pod, scores)))
    if isinstance(plugin, ReservePlugin):
        both = _timed(lambda: (plugin.reserve(cycle, pod, node), plugin.unreserve(cycle, pod, node.name)))
        yield CallCost("Reserve, Unreserve", both)
    if isinstance(plugin, PermitPlugin):
        yield CallCost("Permit", _timed(lambda: plugin.permit(cycle, pod, node)))


def _timed(call: Callable[[], object]) -> float:
    """Return the CPU time of a call in microseconds: the fastest of three runs."""
    times, took = 1, 0.0
    while (took := _run(call, times)) < _MIN_SECONDS:
        times = max(2 * times, int(times * _MIN_SECONDS / max(took, 1e-6)))
    return min(took, _run(call, times), _run(call, times)) / times * 1e6


def _run(call: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        call()
    return time.process_time() - began


def table(cost: Cost, nodes: int) -> Table:
    """Return the cost of a plugin's calls as a table."""
    calls = Table("extension point", "one call, µs", box=None, pad_edge=False)
    calls.add_column(f"plain form, {counted(nodes, 'node')}, µs")
    calls.add_column(f"NumPy form, {counted(nodes, 'node')}, µs")
    for call in cost.calls:
        rest = ("" if call.plain is None else f"{call.plain:,.0f}", _columns(call))
        calls.add_row(call.point, f"{call.once:,.2f}", *rest)
    return calls


def _columns(call: CallCost) -> str:
    if call.plain is None:
        return ""
    return "not written" if call.columns is None else f"{call.columns:,.0f}"


def summary(cost: Cost, nodes: int) -> list[str]:
    """Return lines on the cost of a whole decision and on possible savings."""
    difference = cost.with_plugin - cost.baseline
    lines = [
        f"One decision on {counted(nodes, 'node')}: {cost.with_plugin:,.0f} µs with {cost.name},"
        f" {cost.baseline:,.0f} µs without it ({difference:+,.0f} µs)."
    ]
    if cost.minimal_reads is not None and cost.with_minimal_reads is not None and cost.reads is not None:
        lines.append(
            f"reads = Reads.{cost.reads.name} claims more than this pod needs: with Reads.{cost.minimal_reads.name} a"
            f" decision takes {cost.with_minimal_reads:,.0f} µs. Before you set it, verify that it holds for every pod."
        )
    return lines
