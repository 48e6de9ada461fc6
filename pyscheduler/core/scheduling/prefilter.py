"""The PreFilter extension point: each plugin runs once per pod and may narrow the nodes or reject the pod.

Matches kube-scheduler's RunPreFilterPlugins: an unresolvable rejection ends the point at once, a resolvable one after
all plugins ran; node names are intersected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeTable
from pyscheduler.api.outcome import NodeNames, Rejection, Skip, Status
from pyscheduler.api.plugin import PreFilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin
from pyscheduler.core.framework.plugin_calls import call_plugin
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache

Answer = NodeNames | Rejection | None


@dataclass(slots=True)
class PreFilterResult:
    """Result of the extension point: skipped plugins, remaining node names (None: all) and the rejection, if any."""

    skipped: frozenset[str] = frozenset()
    names: frozenset[str] | None = None
    restricted_by: list[str] = field(default_factory=list)
    rejection: Status | None = None

    def outside_status(self, rejection: Status | None) -> Status:
        """Return the status of the nodes that PreFilter excluded.

        `rejection` is the rejection by the pod's nominated node, which is evaluated first: kube-scheduler names that
        plugin too.
        """
        plugins = {*self.restricted_by, *([rejection.plugin] if rejection else [])}
        return Status(_UNRESOLVABLE.code, "", (f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]",))


_UNRESOLVABLE = Rejection(resolvable=False)


def run_pre_filter(
    plugins: tuple[PreFilterPlugin, ...],
    cycle: Cycle,
    pod: Pod,
    nodes: NodeTable,
    results: PluginResultCache,
    evaluations: CountersByPlugin | None = None,
) -> PreFilterResult:
    """Run the plugins that have no cached result. PluginFailed if one raises."""
    if results.outcome is not None:
        cached: PreFilterResult = results.replay(cycle)
        cycle.skipped = cached.skipped
        return cached
    result, skipped = PreFilterResult(), set(results.skipped)
    for plugin in results.uncached_plugins(plugins, cycle):
        before = results.state_before(plugin, cycle)
        answer = call_plugin(plugin, "PreFilter", plugin.pre_filter, cycle, pod, nodes)
        results.store(plugin, answer, cycle, before)
        if isinstance(answer, Skip):
            skipped.add(plugin.name)
            continue
        if evaluations is not None:
            evaluations[plugin.name].n += 1
        if _merge(result, plugin, answer):
            break
    cycle.skipped = result.skipped = frozenset(skipped)
    results.store_outcome(result)
    return result


def _merge(result: PreFilterResult, plugin: PreFilterPlugin, answer: Answer) -> bool:
    """Merge a plugin's result into `result`. Return True if no further plugin has to run."""
    if isinstance(answer, Rejection):
        result.rejection = Status.of(plugin.name, answer)
        if answer.resolvable:
            return False
        result.restricted_by.clear()  # only this plugin's events can help, not those of plugins that narrowed the nodes
        return True
    if answer is None:
        return False
    result.names = answer.names if result.names is None else result.names & answer.names
    result.restricted_by.append(plugin.name)
    if result.names:
        return False
    # No single plugin rejected the pod; `restricted_by` holds the plugins that narrowed the nodes.
    result.rejection = Status(_UNRESOLVABLE.code, "", (_empty_intersection(result.restricted_by),))
    return True


def _empty_intersection(plugins: list[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"
