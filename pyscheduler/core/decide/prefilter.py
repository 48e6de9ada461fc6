"""The PreFilter point: each plugin looks at the pod once, and may narrow or end the attempt.

Matches kube-scheduler's RunPreFilterPlugins: an unresolvable "no" ends the point at once, a resolvable one only after
the others were asked; node names are intersected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.nodes import NodeTable
from pyscheduler.api.outcome import NodeNames, Rejection, Skip, Status
from pyscheduler.api.plugin import PreFilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.plugin_result_cache import PluginResultCache
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin
from pyscheduler.core.framework.plugin_calls import call_plugin

Answer = NodeNames | Rejection | None


@dataclass(slots=True)
class PreFilterResult:
    """What came of it: who is left out, which nodes remain (None: all), and whether the pod was rejected."""

    skipped: frozenset[str] = frozenset()
    names: frozenset[str] | None = None
    restricted_by: list[str] = field(default_factory=list)
    rejection: Status | None = None

    def outside_status(self, refusal: Status | None) -> Status:
        """Status of the nodes that PreFilter left out.

        `refusal` is why the pod's nominated node, which is evaluated first, does not fit: kube-scheduler names that
        plugin as well.
        """
        plugins = {*self.restricted_by, *([refusal.plugin] if refusal else [])}
        return Status(_UNRESOLVABLE.code, "", (f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]",))


_UNRESOLVABLE = Rejection(resolvable=False)


def run_pre_filter(
    plugins: tuple[PreFilterPlugin, ...],
    cycle: Cycle,
    pod: Pod,
    nodes: NodeTable,
    kept: PluginResultCache,
    asked: CountersByPlugin | None = None,
) -> PreFilterResult:
    """Ask every plugin, those whose answer is kept only once for a signature. PluginFailed if one raises."""
    if kept.outcome is not None:
        known: PreFilterResult = kept.replay(cycle)
        cycle.skipped = known.skipped
        return known
    result, skipped = PreFilterResult(), set(kept.skipped)
    for plugin in kept.uncached_plugins(plugins, cycle):
        before = kept.state_before(plugin, cycle)
        answer = call_plugin(plugin, "PreFilter", plugin.pre_filter, cycle, pod, nodes)
        kept.store(plugin, answer, cycle, before)
        if isinstance(answer, Skip):
            skipped.add(plugin.name)
            continue
        if asked is not None:
            asked[plugin.name].n += 1
        if _ends(result, plugin, answer):
            break
    cycle.skipped = result.skipped = frozenset(skipped)
    kept.store_outcome(result)
    return result


def _ends(result: PreFilterResult, plugin: PreFilterPlugin, answer: Answer) -> bool:
    """Take the answer in; whether no further plugin is to be asked."""
    if isinstance(answer, Rejection):
        result.rejection = Status.of(plugin.name, answer)
        if answer.resolvable:
            return False
        result.restricted_by.clear()  # only this plugin's events can help, whoever narrowed the nodes before
        return True
    if answer is None:
        return False
    result.names = answer.names if result.names is None else result.names & answer.names
    result.restricted_by.append(plugin.name)
    if result.names:
        return False
    # No single plugin has said it; who narrowed the nodes is in `restricted_by`.
    result.rejection = Status(_UNRESOLVABLE.code, "", (_nothing_left(result.restricted_by),))
    return True


def _nothing_left(plugins: list[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"
