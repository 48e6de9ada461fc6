"""Cached PreFilter and PreScore results that are valid for every pod of one signature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, Generic, NamedTuple, TypeVar

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


class Step(NamedTuple, Generic[P]):
    """Cycle state that cached results add up to here, and the next plugin to run; None at the end."""

    state: State
    plugin: P | None


class PluginResultCache:
    """Results for a signature, selected by `is_cacheable`; a changed node object invalidates some of them."""

    __slots__ = ("_cached", "_last_plan", "_skip_results", "_states", "_steps", "live", "outcome", "skipped")

    def __init__(self) -> None:
        self.skipped: frozenset[str] = frozenset()
        """Names of the plugins that returned SKIP; the same object until others do."""
        self._cached: set[str] = set()
        self.live: set[str] = set()
        """Plugins with cached state that shows placed pods, so that it needs no new call when only these change."""
        self._states: dict[str, State] = {}
        self._steps: list[Step[Any]] | None = None
        self._last_plan: tuple[frozenset[str], list[Step[Any]]] | None = None
        """Plugins with cached results at the last `_plan`, and its steps; None if a plugin has written state since.

        Pods with labels of their own invalidate the same results one after the other.
        """
        self._skip_results: dict[str, bool] = {}
        """Plugins that returned SKIP_SIGNATURE (False) or SKIP_SIGNATURE_GROUP (True)."""
        self.outcome: Any = None
        """Combined result of the extension point if no plugin has to run any more; None otherwise."""

    def copy_without(self, plugins: frozenset[str]) -> PluginResultCache:
        """Return a copy without the results of some plugins."""
        twin = PluginResultCache()
        twin.skipped, twin._cached, twin._states = self.skipped, {*self._cached}, {**self._states}
        twin._skip_results, twin._steps, twin.outcome = {**self._skip_results}, self._steps, self.outcome
        twin.drop(plugins | self.live)
        return twin

    def invalidate_readers(self, plugins: Set[str]) -> None:
        """Drop what pods of the signature share of plugins that read more than nodes, because that changed for some."""
        self.drop((self._skip_results.keys() | self.live) & plugins)

    def invalidate(self, plugins: frozenset[str]) -> None:
        """Drop the results of some plugins before a pod of another signature of the group.

        SKIP_SIGNATURE_GROUP stays valid.
        """
        if self._cached:
            self.drop([name for name in plugins if not self._skip_results.get(name)])

    def drop(self, plugins: Iterable[str]) -> None:
        """Drop the results of some plugins."""
        gone = self._cached.intersection(plugins)
        if gone:
            self._cached -= gone
            self.live -= gone
            self.skipped -= gone
            for name in gone:
                self._skip_results.pop(name, None)
            self._invalidate_plan()

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
        if not self._cached:
            yield from plugins
            return
        if self._steps is None:
            last = self._last_plan
            if last is None or last[0] != self._cached:
                self._last_plan = last = frozenset(self._cached), self._plan(plugins)
            self._steps = last[1]
        for state, plugin in self._steps:
            if state:
                cycle.update_state(state)
            if plugin is not None:
                yield plugin

    def replay(self, cycle: Cycle) -> Any:
        """Add the cached state to the cycle and return `outcome`."""
        assert self._steps is not None
        state = self._steps[-1].state
        if state:
            cycle.update_state(state)
        return self.outcome

    def store_outcome(self, outcome: Any) -> None:
        """Cache the combined result if no plugin has to run next time."""
        if self._steps is not None and len(self._steps) == 1:
            self.outcome = outcome

    def store(self, plugin: Plugin, answer: object, cycle: Cycle, before: State, live: bool = False) -> None:
        """Cache the plugin's result if it is valid for other pods of the signature.

        `before` is the state of the cycle before the plugin ran. `live` if what it has written shows placed pods.
        """
        holds = answer is SKIP_SIGNATURE or answer is SKIP_SIGNATURE_GROUP
        if not holds and not ((live or is_cacheable(plugin)) and (answer is None or answer is SKIP)):
            return
        written = {key: value for key, value in cycle.state().items() if before.get(key) is not value}
        self._store(plugin.name, written, skipped=answer is not None)
        if live and not holds:
            self.live.add(plugin.name)
        if holds:
            self._skip_results[plugin.name] = answer is SKIP_SIGNATURE_GROUP

    def _store(self, name: str, written: State, skipped: bool) -> None:
        if written or self._states.get(name):
            self._last_plan = None
        self._cached.add(name)
        self._states[name] = written
        if skipped:
            self.skipped |= {name}
        self._invalidate_plan()

    def _invalidate_plan(self) -> None:
        self._steps = self.outcome = None

    def _plan(self, plugins: Sequence[P]) -> list[Step[P]]:
        steps: list[Step[P]] = []
        state: State = {}
        for plugin in plugins:
            if plugin.name in self._cached:
                written = self._states[plugin.name]
                if written:
                    state |= written
            else:
                steps.append(Step(state, plugin))
                state = {}
        return [*steps, Step(state, None)]


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
    results.store_outcome(skipped)
    return skipped
