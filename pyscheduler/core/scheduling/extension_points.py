"""Extension points at which the results of several plugins are combined: PreFilter, PostFilter, Reserve, Permit.

The rules are those of kube-scheduler's framework (runtime/framework.go): which result ends a point, and which one the
pod gets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from msgspec import Struct

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.outcome import (
    ClearNomination,
    Code,
    NodeNames,
    Nominate,
    Rejection,
    Skip,
    Status,
    StatusError,
    Wait,
)
from pyscheduler.api.plugin import PermitPlugin, PostFilterPlugin, PreFilterPlugin, ReservePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.preemption import PreemptionPlugin
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin
from pyscheduler.core.framework.plugin_calls import call_plugin, run_step
from pyscheduler.core.framework.plugin_failure import describe, raise_plugin_failed
from pyscheduler.core.framework.result_checks import check_result
from pyscheduler.core.instrument import SUCCESS, Instrument, Point
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache

T = TypeVar("T")
RESERVE = "Reserve"
PERMIT = "Permit"
POST_FILTER = "PostFilter"

# -- PreFilter: each plugin runs once per pod and may narrow the nodes or reject the pod -----------------------------


class PreFilterResult(Struct):
    """Result of the extension point: skipped plugins, remaining node names (None: all) and the rejection, if any."""

    skipped: frozenset[str] = frozenset()
    names: frozenset[str] | None = None
    restricted_by: list[str] = []
    rejection: Status | None = None

    def absent_nodes_status(self, nominated_node_status: Status | None) -> Status:
        """Return the status of the nodes that PreFilter excluded.

        The rejection by the pod's nominated node, which is evaluated first, names its plugin too, as in kube-scheduler.
        """
        plugins = {*self.restricted_by, *([nominated_node_status.plugin] if nominated_node_status else [])}
        return Status(_UNRESOLVABLE.code, "", (f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]",))

    def diagnosis(self, total_nodes: int) -> Diagnosis:
        """Return the diagnosis of a pod that PreFilter rejected."""
        status = self.rejection
        assert status is not None, "PreFilter has not rejected the pod"
        pending = {status.plugin} if status.code is Code.PENDING else set()
        return Diagnosis(
            total_nodes,
            status_of=lambda _: status,
            pre_filter=status,
            unschedulable_plugins={status.plugin, *self.restricted_by} - pending - {""},
            pending_plugins=pending,
        )


_UNRESOLVABLE = Rejection(resolvable=False)


def run_pre_filter_plugins(
    plugins: tuple[PreFilterPlugin, ...],
    cycle: Cycle,
    pod: Pod,
    nodes: Callable[[], NodeTable],
    cached: PluginResultCache,
    evaluations: CountersByPlugin | None = None,
) -> PreFilterResult:
    """Run the plugins that have no cached result. PluginFailed if one raises.

    An unresolvable rejection ends the point at once, a resolvable one after all plugins ran; node names are
    intersected.
    """
    if cached.outcome is not None:
        result: PreFilterResult = cached.replay(cycle)
        cycle.skipped = result.skipped
        return result
    result, skipped, table = PreFilterResult(), cached.skipped, nodes()
    for plugin in cached.uncached_plugins(plugins, cycle):
        if cycle.is_resize and not plugin.checks_resizes:
            skipped |= {plugin.name}
            continue
        before = cycle.state()
        returned = call_plugin(plugin, "PreFilter", plugin.pre_filter, cycle, pod, table)
        cached.store(plugin, returned, cycle, before)
        if isinstance(returned, Skip):
            skipped |= {plugin.name}
            continue
        if evaluations is not None:
            evaluations[plugin.name].n += 1
        if _merge(result, plugin, returned):
            break
    cycle.skipped = result.skipped = skipped
    cached.store_outcome(result, plugins)
    return result


def _merge(result: PreFilterResult, plugin: PreFilterPlugin, returned: NodeNames | Rejection | None) -> bool:
    """Merge a plugin's result into `result`. Return True if no further plugin has to run."""
    if isinstance(returned, Rejection):
        result.rejection = Status.of(plugin.name, returned)
        if returned.resolvable:
            return False
        result.restricted_by.clear()  # only this plugin's events can help, not those of plugins that narrowed the nodes
        return True
    if returned is None:
        return False
    result.names = returned.names if result.names is None else result.names & returned.names
    result.restricted_by.append(plugin.name)
    if result.names:
        return False
    # No single plugin rejected the pod; `restricted_by` holds the plugins that narrowed the nodes.
    names = sorted(result.restricted_by)
    which = f"plugin {names[0]}" if len(names) == 1 else f"plugin(s) [{' '.join(names)}] simultaneously"
    result.rejection = Status(_UNRESOLVABLE.code, "", (f"node(s) didn't satisfy {which}",))
    return True


# -- PostFilter: the plugins make room for a pod that fits no node ---------------------------------------------------

PostFilterSteps = Generator[None, None, T]


class PostFilterResult(Struct, frozen=True):
    """Result of the extension point: message for the user, nominated node and victims."""

    message: str = ""
    nominate: str | None = None
    """None leaves the nomination unchanged, "" clears it."""
    evict: tuple[Pod, ...] = ()
    plugin: str = ""
    """Name of the plugin that nominated the node, "" if none did."""
    code: Code = Code.UNSCHEDULABLE
    earlier_reasons: tuple[str, ...] = ()
    """Reasons of the plugins that ran before the one that nominated the node."""


def run_post_filter_plugins(
    plugins: tuple[PostFilterPlugin, ...], cycle: Cycle, pod: Pod, diagnosis: Diagnosis, instrument: Instrument
) -> PostFilterResult:
    """Run the plugins in order. PluginFailed if one raises."""
    steps = run_post_filter_plugins_in_steps(plugins, cycle, pod, diagnosis, instrument)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: PostFilterResult = end.value
            return result


def run_post_filter_plugins_in_steps(
    plugins: tuple[PostFilterPlugin, ...], cycle: Cycle, pod: Pod, diagnosis: Diagnosis, instrument: Instrument
) -> PostFilterSteps[PostFilterResult]:
    """Run PostFilter in steps of a few milliseconds. If the state changes in between, close the generator."""
    if not plugins:
        return PostFilterResult(nominate="")
    with instrument.point(POST_FILTER, cycle.profile) as point:
        result = yield from _post_filter(plugins, cycle, pod, diagnosis, instrument)
        point.status = result.code.camel
    return result


def _post_filter(
    plugins: tuple[PostFilterPlugin, ...], cycle: Cycle, pod: Pod, diagnosis: Diagnosis, instrument: Instrument
) -> PostFilterSteps[PostFilterResult]:
    """Run the plugins until a success, an unresolvable rejection or an error, which is then the only result."""
    nominate = None
    reasons: list[str] = []
    for plugin in plugins:
        if cycle.is_resize and not plugin.checks_resizes:
            continue
        result = yield from _call_in_steps(plugin, cycle, pod, diagnosis)
        if isinstance(plugin, PreemptionPlugin):
            instrument.preemption_attempted()
        if isinstance(result, Nominate):
            return PostFilterResult(
                result.message, result.node_name, result.evict, plugin.name, Code.SUCCESS, tuple(reasons)
            )
        if isinstance(result, StatusError):
            return PostFilterResult(describe(result), code=Code.ERROR)
        if isinstance(result, ClearNomination):
            nominate, result = "", result.rejection
        if result.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PostFilterResult(result.message, nominate, code=result.code)
        reasons.extend(result.reasons)
    return PostFilterResult(", ".join(reasons), nominate)


PostFilterReturn = Nominate | ClearNomination | Rejection | StatusError


def _call_in_steps(
    plugin: PostFilterPlugin, cycle: Cycle, pod: Pod, diagnosis: Diagnosis
) -> PostFilterSteps[PostFilterReturn]:
    """Return the plugin's result; each step is timed as a call of the plugin if the attempt has an observer."""
    observer = cycle.call_observer
    try:
        steps = plugin.post_filter_steps(cycle, pod, diagnosis)
        while True:
            end = run_step(steps) if observer is None else observer(plugin.name, POST_FILTER, run_step, steps)
            if end is not None:
                result: PostFilterReturn = end.value
                check_result(POST_FILTER, plugin.post_filter, result)
                return result
            yield
    except StatusError as status:
        return status
    except BaseException as error:
        raise_plugin_failed(plugin.name, POST_FILTER, error)


# -- Reserve and Permit: the first rejection ends the point; without plugins the point is not counted ----------------


def run_reserve_plugins(
    plugins: tuple[ReservePlugin, ...], cycle: Cycle, pod: Pod, node: NodeInfo, point: Point
) -> Status | None:
    """Return the first rejection by a Reserve plugin. PluginFailed if one raises."""
    if not plugins:
        return None
    point.began, skipped = point.clock(), () if cycle.call_observer is not None else cycle.skipped
    for plugin in plugins:
        if plugin.name in skipped and plugin.skip_includes_reserve:
            continue
        rejection = call_plugin(plugin, RESERVE, plugin.reserve, cycle, pod, node)
        if rejection is not None:
            point.leave(rejection.code.camel)
            return Status.of(plugin.name, rejection)
    point.leave()
    return None


def run_permit_plugins(
    plugins: tuple[PermitPlugin, ...], cycle: Cycle, pod: Pod, node: NodeInfo, point: Point
) -> tuple[Status | None, dict[str, Wait]]:
    """Return the first rejection by a Permit plugin, and the Wait results by plugin. PluginFailed if one raises."""
    waits: dict[str, Wait] = {}
    if not plugins:
        return None, waits
    point.began = point.clock()
    for plugin in plugins:
        returned = call_plugin(plugin, PERMIT, plugin.permit, cycle, pod, node)
        if isinstance(returned, Rejection):
            point.leave(returned.code.camel)
            return Status.of(plugin.name, returned), waits
        if returned is not None:
            waits[plugin.name] = returned
    point.leave(Code.WAIT.camel if waits else SUCCESS)
    return None, waits
