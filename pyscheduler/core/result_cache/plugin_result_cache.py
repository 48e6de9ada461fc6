"""Cached PreFilter and PreScore results that are valid for every pod of one signature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, TypeVar

from pyscheduler.api.cycle import Cycle, StateKey
from pyscheduler.api.nodes import NodeTable
from pyscheduler.api.outcome import SKIP, SKIP_SIGNATURE, SKIP_SIGNATURE_GROUP, Skip
from pyscheduler.api.plugin import Plugin, PreScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin
from pyscheduler.core.framework.plugin_calls import call_plugin
from pyscheduler.core.framework.profile import is_cacheable, is_live

State = dict[StateKey[Any], Any]
P = TypeVar("P", bound=Plugin)


class PluginResultCache:
    """Results for a signature, selected by `is_cacheable`; a changed node object invalidates some of them."""

    __slots__ = ("_all_states", "_skip_results", "_states", "_steps", "live", "outcome", "skipped")

    def __init__(self) -> None:
        self.skipped: frozenset[str] = frozenset()
        """Names of the plugins that returned SKIP; the same object until others do."""
        self.live: set[str] = set()
        """Plugins with cached state that shows placed pods, so that it needs no new call when only these change."""
        self._states: dict[str, State] = {}
        """Cycle state that the plugins with cached results wrote."""
        self._steps: Sequence[tuple[Any, State | None]] | None = None
        """Plugins in order, each with its cached state, None if it has to run; without those that wrote nothing.

        None after a change.
        """
        self._skip_results: dict[str, bool] = {}
        """Plugins that returned SKIP_SIGNATURE (False) or SKIP_SIGNATURE_GROUP (True)."""
        self.outcome: Any = None
        """Combined result of the extension point if no plugin has to run any more; None otherwise."""
        self._all_states: State = {}
        """Cycle state of all plugins, with `outcome`."""

    def copy_without(self, plugins: frozenset[str]) -> PluginResultCache:
        """Return a copy without the results of some plugins."""
        twin = PluginResultCache()
        twin.skipped, twin._states, twin._skip_results = self.skipped, {**self._states}, {**self._skip_results}
        twin.outcome, twin._all_states = self.outcome, self._all_states
        twin.drop(plugins | self.live)
        return twin

    def invalidate_readers(self, plugins: Set[str]) -> None:
        """Drop what pods of the signature share of plugins that read more than nodes, because that changed for some."""
        self.drop((self._skip_results.keys() | self.live) & plugins)

    def invalidate(self, plugins: frozenset[str]) -> None:
        """Drop the results of some plugins before a pod of another signature of the group.

        SKIP_SIGNATURE_GROUP stays valid.
        """
        states, skips = self._states, self._skip_results
        self._drop([name for name in plugins if name in states and not skips.get(name)])

    def drop(self, plugins: Iterable[str]) -> None:
        """Drop the results of some plugins."""
        self._drop([name for name in plugins if name in self._states])

    def _drop(self, cached: Sequence[str]) -> None:
        if cached:
            self.live.difference_update(cached)
            self.skipped = self.skipped.difference(cached)
            self.outcome = self._steps = None
            for name in cached:
                del self._states[name]
                self._skip_results.pop(name, None)

    def drop_live(self) -> None:
        """Drop the results that show placed pods, because something else that they depend on changed."""
        self.drop([*self.live])

    def skips(self, group: bool) -> Set[str]:
        """Return the plugins with a valid SKIP_SIGNATURE_GROUP or, unless for the `group`, SKIP_SIGNATURE."""
        results = self._skip_results
        return {name for name, is_for_group in results.items() if is_for_group} if group else results.keys()

    def uncached_plugins(self, plugins: Sequence[P], cycle: Cycle) -> Iterator[P]:
        """Yield the plugins to run in order, after adding the cached state of the plugins before each one to the cycle.

        Cached state is not added earlier: a plugin that is not reached must not change the cycle.
        """
        steps = self._steps
        for plugin, written in self._all_steps(plugins) if steps is None else steps:
            if written is None:
                yield plugin
            elif written:
                cycle.update_state(written)

    def _all_steps(self, plugins: Sequence[Plugin]) -> Sequence[tuple[Any, State | None]]:
        states = self._states
        return [(plugin, states.get(plugin.name)) for plugin in plugins]

    def replay(self, cycle: Cycle) -> Any:
        """Add the cached state to the cycle and return `outcome`."""
        if self._all_states:
            cycle.update_state(self._all_states)
        return self.outcome

    def store_outcome(self, outcome: Any, plugins: Sequence[Plugin]) -> None:
        """Cache the combined result of these plugins if none has to run next time, else which of them have to."""
        if len(self._states) == len(plugins):
            self.outcome, self._all_states = outcome, {}
            for plugin in plugins:
                if written := self._states[plugin.name]:
                    self._all_states |= written
        elif self._steps is None:
            self._steps = [step for step in self._all_steps(plugins) if step[1] != {}]

    def store(self, plugin: Plugin, answer: object, cycle: Cycle, before: State, live: bool = False) -> None:
        """Cache the plugin's result if it is valid for other pods of the signature.

        `before` is the state of the cycle before the plugin ran. `live` if what it has written shows placed pods.
        """
        holds = answer is SKIP_SIGNATURE or answer is SKIP_SIGNATURE_GROUP
        if not holds and not ((live or is_cacheable(plugin)) and (answer is None or answer is SKIP)):
            return
        written = {key: value for key, value in cycle.state().items() if before.get(key) is not value}
        self._states[plugin.name], self._steps = written, None
        if answer is not None:
            self.skipped |= {plugin.name}
        if live and not holds:
            self.live.add(plugin.name)
        if holds:
            self._skip_results[plugin.name] = answer is SKIP_SIGNATURE_GROUP


def run_pre_score(
    plugins: Sequence[PreScorePlugin],
    cycle: Cycle,
    pod: Pod,
    feasible: Callable[[], NodeTable],
    results: PluginResultCache,
    evaluations: CountersByPlugin,
) -> frozenset[str]:
    """Run the PreScore plugins that have no cached result. Return the names of the skipped plugins."""
    skipped = results.skipped
    table: NodeTable | None = None
    for plugin in results.uncached_plugins(plugins, cycle):
        if table is None:
            table = feasible()
        before = cycle.state()
        answer = call_plugin(plugin, "PreScore", plugin.pre_score, cycle, pod, table)
        results.store(plugin, answer, cycle, before, is_live(plugin))
        if isinstance(answer, Skip):
            skipped |= {plugin.name}
        else:
            evaluations[plugin.name].n += 1
    results.store_outcome(skipped, plugins)
    return skipped
