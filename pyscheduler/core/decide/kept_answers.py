"""The PreFilter and PreScore answers that serve every pod of one shape, and how they are given again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from pyscheduler.api.cycle import Cycle, StateKey
from pyscheduler.api.nodes import NodeTable
from pyscheduler.api.outcome import SKIP, SKIP_SHAPE, SKIP_TEMPLATE, Skip
from pyscheduler.api.plugin import Plugin, PreScorePlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.calls import called
from pyscheduler.core.framework.evaluations import Counts
from pyscheduler.core.framework.profile import is_kept

State = dict[StateKey[Any], Any]
P = TypeVar("P", bound=Plugin)


class Step(NamedTuple, Generic[P]):
    """What kept answers left in the cycle up to here, and the plugin to be asked next; None at the end."""

    state: State
    plugin: P | None


class KeptAnswers:
    """What was said for a shape, and holds until a node object changes; see `is_kept` for whose answers do."""

    __slots__ = ("_asked", "_passing", "_states", "_steps", "outcome", "skipped")

    def __init__(self) -> None:
        self.skipped: set[str] = set()
        """The plugins that left themselves out."""
        self._asked: set[str] = set()
        self._states: dict[str, State] = {}
        self._steps: list[Step[Any]] | None = None
        self._passing: dict[str, bool] = {}
        """The plugins whose answer was SKIP_SHAPE, or SKIP_TEMPLATE: True."""
        self.outcome: Any = None
        """What came of all answers, where nobody is to be asked any more; None otherwise."""

    def renew(self) -> None:
        """Forget each SKIP_SHAPE and SKIP_TEMPLATE: what such answers rest on has changed."""
        if self._passing:
            self._asked -= self._passing.keys()
            self.skipped -= self._passing.keys()
            self._passing.clear()
            self._plan_anew()

    def forget(self, plugins: frozenset[str]) -> None:
        """Another pod of the template is asked about: forget what some plugins said, unless it was of all its pods."""
        gone = [name for name in plugins if name in self._asked and not self._passing.get(name)]
        if gone:
            self._asked.difference_update(gone)
            self.skipped.difference_update(gone)
            for name in gone:
                self._passing.pop(name, None)
            self._plan_anew()

    def still_to_ask(self, plugins: Sequence[P], cycle: Cycle) -> Iterator[P]:
        """The plugins to be asked, in their turn; what the others left in the cycle is there when it is theirs.

        Not before its turn: a plugin whose turn does not come must leave no trace in the cycle.
        """
        if not self._asked:
            yield from plugins
            return
        if self._steps is None:
            self._steps = self._planned(plugins)
        for state, plugin in self._steps:
            if state:
                cycle.adopt(state)
            if plugin is not None:
                yield plugin

    def replay(self, cycle: Cycle) -> Any:
        """Leave in the cycle what the answers left, and give the `outcome`."""
        assert self._steps is not None
        state = self._steps[-1].state
        if state:
            cycle.adopt(state)
        return self.outcome

    def settle(self, outcome: Any) -> None:
        """Keep what came of all answers, if it will be the same next time."""
        if self._steps is not None and len(self._steps) == 1:
            self.outcome = outcome

    def before(self, plugin: Plugin, cycle: Cycle) -> State | None:
        """What is in the cycle, where it will matter what the plugin adds to it."""
        return cycle.state() if is_kept(plugin) else None

    def note(self, plugin: Plugin, answer: object, cycle: Cycle, before: State | None) -> None:
        """The plugin has answered, `before` being what was there; keep what serves other pods of the shape."""
        if answer is SKIP_SHAPE or answer is SKIP_TEMPLATE:
            self._keep(plugin.name, {}, skipped=True)
            self._passing[plugin.name] = answer is SKIP_TEMPLATE
        elif before is not None and (answer is None or answer is SKIP):
            written = {key: value for key, value in cycle.state().items() if before.get(key) is not value}
            self._keep(plugin.name, written, skipped=answer is SKIP)

    def _keep(self, name: str, written: State, skipped: bool) -> None:
        self._asked.add(name)
        self._states[name] = written
        if skipped:
            self.skipped.add(name)
        self._plan_anew()

    def _plan_anew(self) -> None:
        self._steps = self.outcome = None

    def _planned(self, plugins: Sequence[P]) -> list[Step[P]]:
        steps: list[Step[P]] = []
        state: State = {}
        for plugin in plugins:
            if plugin.name in self._asked:
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
    kept: KeptAnswers,
    asked: Counts,
) -> frozenset[str]:
    """Ask the PreScore plugins, those whose answer is kept once; who is to be left out of scoring."""
    if kept.outcome is not None:
        known: frozenset[str] = kept.replay(cycle)
        return known
    skipped = set(kept.skipped)
    table: NodeTable | None = None
    for plugin in kept.still_to_ask(plugins, cycle):
        if table is None:
            table = feasible()
        before = kept.before(plugin, cycle)
        answer = called(plugin, "PreScore", plugin.pre_score, cycle, pod, table)
        kept.note(plugin, answer, cycle, before)
        if isinstance(answer, Skip):
            skipped.add(plugin.name)
        else:
            asked[plugin.name].n += 1
    left_out = frozenset(skipped)
    kept.settle(left_out)
    return left_out
