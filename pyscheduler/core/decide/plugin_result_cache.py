"""The PreFilter and PreScore answers that serve every pod of one signature, and how they are given again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from pyscheduler.api.cycle import Cycle, StateKey
from pyscheduler.api.nodes import NodeTable
from pyscheduler.api.outcome import SKIP, SKIP_SIGNATURE, SKIP_SIGNATURE_GROUP, Skip
from pyscheduler.api.plugin import Plugin, PreScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.evaluation_counts import CountersByPlugin
from pyscheduler.core.framework.plugin_calls import call_plugin
from pyscheduler.core.framework.profile import is_kept

State = dict[StateKey[Any], Any]
P = TypeVar("P", bound=Plugin)


class Step(NamedTuple, Generic[P]):
    """What kept answers left in the cycle up to here, and the plugin to be asked next; None at the end."""

    state: State
    plugin: P | None


class PluginResultCache:
    """What was said for a signature, and holds until a node object changes; see `is_kept` for whose answers do."""

    __slots__ = ("_cached", "_skip_results", "_states", "_steps", "outcome", "skipped")

    def __init__(self) -> None:
        self.skipped: set[str] = set()
        """The plugins that left themselves out."""
        self._cached: set[str] = set()
        self._states: dict[str, State] = {}
        self._steps: list[Step[Any]] | None = None
        self._skip_results: dict[str, bool] = {}
        """The plugins whose answer was SKIP_SIGNATURE, or SKIP_SIGNATURE_GROUP: True."""
        self.outcome: Any = None
        """What came of all answers, where nobody is to be asked any more; None otherwise."""

    def invalidate_skips(self) -> None:
        """Forget each SKIP_SIGNATURE and SKIP_SIGNATURE_GROUP: what such answers rest on has changed."""
        if self._skip_results:
            self._cached -= self._skip_results.keys()
            self.skipped -= self._skip_results.keys()
            self._skip_results.clear()
            self._invalidate_plan()

    def invalidate(self, plugins: frozenset[str]) -> None:
        """Another pod of the template is asked about: forget what some plugins said, unless it was of all its pods."""
        gone = [name for name in plugins if name in self._cached and not self._skip_results.get(name)]
        if gone:
            self._cached.difference_update(gone)
            self.skipped.difference_update(gone)
            for name in gone:
                self._skip_results.pop(name, None)
            self._invalidate_plan()

    def uncached_plugins(self, plugins: Sequence[P], cycle: Cycle) -> Iterator[P]:
        """The plugins to be asked, in their turn; what the others left in the cycle is there when it is theirs.

        Not before its turn: a plugin whose turn does not come must leave no trace in the cycle.
        """
        if not self._cached:
            yield from plugins
            return
        if self._steps is None:
            self._steps = self._plan(plugins)
        for state, plugin in self._steps:
            if state:
                cycle.update_state(state)
            if plugin is not None:
                yield plugin

    def replay(self, cycle: Cycle) -> Any:
        """Leave in the cycle what the answers left, and give the `outcome`."""
        assert self._steps is not None
        state = self._steps[-1].state
        if state:
            cycle.update_state(state)
        return self.outcome

    def store_outcome(self, outcome: Any) -> None:
        """Keep what came of all answers, if it will be the same next time."""
        if self._steps is not None and len(self._steps) == 1:
            self.outcome = outcome

    def state_before(self, plugin: Plugin, cycle: Cycle) -> State | None:
        """What is in the cycle, where it will matter what the plugin adds to it."""
        return cycle.state() if is_kept(plugin) else None

    def store(self, plugin: Plugin, answer: object, cycle: Cycle, before: State | None) -> None:
        """The plugin has answered, `before` being what was there; keep what serves other pods of the signature."""
        if answer is SKIP_SIGNATURE or answer is SKIP_SIGNATURE_GROUP:
            self._store(plugin.name, {}, skipped=True)
            self._skip_results[plugin.name] = answer is SKIP_SIGNATURE_GROUP
        elif before is not None and (answer is None or answer is SKIP):
            written = {key: value for key, value in cycle.state().items() if before.get(key) is not value}
            self._store(plugin.name, written, skipped=answer is SKIP)

    def _store(self, name: str, written: State, skipped: bool) -> None:
        self._cached.add(name)
        self._states[name] = written
        if skipped:
            self.skipped.add(name)
        self._invalidate_plan()

    def _invalidate_plan(self) -> None:
        self._steps = self.outcome = None

    def _plan(self, plugins: Sequence[P]) -> list[Step[P]]:
        steps: list[Step[P]] = []
        state: State = {}
        for plugin in plugins:
            if plugin.name in self._cached:
                state |= self._states[plugin.name]
            else:
                steps.append(Step(state, plugin))
                state = {}
        return [*steps, Step(state, None)]


def run_pre_score(
    plugins: Sequence[PreScorePlugin],
    cycle: Cycle,
    pod: Pod,
    feasible: Callable[[], NodeTable],
    kept: PluginResultCache,
    asked: CountersByPlugin,
) -> frozenset[str]:
    """Ask the PreScore plugins, those whose answer is kept once; who is to be left out of scoring."""
    if kept.outcome is not None:
        known: frozenset[str] = kept.replay(cycle)
        return known
    skipped = set(kept.skipped)
    table: NodeTable | None = None
    for plugin in kept.uncached_plugins(plugins, cycle):
        if table is None:
            table = feasible()
        before = kept.state_before(plugin, cycle)
        answer = call_plugin(plugin, "PreScore", plugin.pre_score, cycle, pod, table)
        kept.store(plugin, answer, cycle, before)
        if isinstance(answer, Skip):
            skipped.add(plugin.name)
        else:
            asked[plugin.name].n += 1
    left_out = frozenset(skipped)
    kept.store_outcome(left_out)
    return left_out
