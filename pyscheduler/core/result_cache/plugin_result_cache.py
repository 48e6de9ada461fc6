"""Cached PreFilter and PreScore results that are valid for every pod of one signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from pyscheduler.api.cycle import Cycle, StateKey
from pyscheduler.api.nodes import NodeTable
from pyscheduler.api.outcome import SKIP, SKIP_SIGNATURE, SKIP_SIGNATURE_GROUP, Skip
from pyscheduler.api.plugin import Plugin, PreScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin
from pyscheduler.core.framework.plugin_calls import call_plugin
from pyscheduler.core.framework.profile import is_cacheable

State = dict[StateKey[Any], Any]
P = TypeVar("P", bound=Plugin)


class Step(NamedTuple, Generic[P]):
    """Cycle state that cached results add up to here, and the next plugin to run; None at the end."""

    state: State
    plugin: P | None


class _Result(NamedTuple):
    """Cached result of one plugin."""

    returned: object
    """None, or one of the Skip constants."""
    state: State
    """What the plugin has written to the cycle."""


class PluginResultCache(Struct, eq=False):
    """Results for a signature, selected by `is_cacheable`; a changed node object invalidates some of them."""

    _results: dict[str, _Result] = {}
    _steps: list[Step[Any]] | None = None
    outcome: Any = None
    """Combined result of the extension point if no plugin has to run any more; None otherwise."""

    def copy_without(self, plugins: frozenset[str]) -> PluginResultCache:
        """Return a copy without the results of some plugins."""
        twin = PluginResultCache({**self._results}, self._steps, self.outcome)
        twin.drop(plugins)
        return twin

    @property
    def skipped(self) -> set[str]:
        """Names of the plugins that returned SKIP."""
        return {name for name, result in self._results.items() if result.returned is not None}

    def skips(self, group: bool) -> set[str]:
        """Return the plugins with a valid SKIP_SIGNATURE_GROUP or, unless for the `group`, SKIP_SIGNATURE."""
        kinds = (SKIP_SIGNATURE_GROUP,) if group else (SKIP_SIGNATURE, SKIP_SIGNATURE_GROUP)
        return {name for name, result in self._results.items() if result.returned in kinds}

    def invalidate_skips(self, plugins: Set[str]) -> None:
        """Drop SKIP_SIGNATURE and SKIP_SIGNATURE_GROUP of some plugins, because something they depend on changed."""
        self.drop(self.skips(group=False) & plugins)

    def invalidate(self, plugins: frozenset[str]) -> None:
        """Drop the results of some plugins before a pod of another signature of the group.

        SKIP_SIGNATURE_GROUP stays valid.
        """
        self.drop(plugins - self.skips(group=True))

    def drop(self, plugins: Set[str]) -> None:
        """Drop the results of some plugins."""
        for name in self._results.keys() & plugins:
            del self._results[name]
            self._steps = self.outcome = None

    def uncached_plugins(self, plugins: Sequence[P], cycle: Cycle) -> Iterator[P]:
        """Yield the plugins to run in order, after adding the cached state of the plugins before each one to the cycle.

        Cached state is not added earlier: a plugin that is not reached must not change the cycle.
        """
        if self._steps is None:
            self._steps = self._plan(plugins)
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

    def store(self, plugin: Plugin, answer: object, cycle: Cycle, before: State) -> None:
        """Cache the plugin's result if it is valid for other pods of the signature.

        `before` is the state of the cycle before the plugin ran.
        """
        holds = answer is SKIP_SIGNATURE or answer is SKIP_SIGNATURE_GROUP
        if not holds and not (is_cacheable(plugin) and (answer is None or answer is SKIP)):
            return
        written = {key: value for key, value in cycle.state().items() if before.get(key) is not value}
        self._results[plugin.name] = _Result(answer, written)
        self._steps = self.outcome = None

    def _plan(self, plugins: Sequence[P]) -> list[Step[P]]:
        steps: list[Step[P]] = []
        state: State = {}
        for plugin in plugins:
            cached = self._results.get(plugin.name)
            if cached is None:
                steps.append(Step(state, plugin))
                state = {}
            else:
                state |= cached.state
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
        results.store(plugin, answer, cycle, before)
        if isinstance(answer, Skip):
            skipped.add(plugin.name)
        else:
            evaluations[plugin.name].n += 1
    skip_set = frozenset(skipped)
    results.store_outcome(skip_set)
    return skip_set
