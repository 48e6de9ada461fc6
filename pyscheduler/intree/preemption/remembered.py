"""What trying out nodes has shown, kept for the next pod of the template.

Preemptors come by the hundred, and each tries as many nodes as the one before: between two of them hardly any node has
changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from pyscheduler.api import Candidate, Code, Status
from pyscheduler.api.pod import PodTemplate

_TEMPLATES = 16
"""For so many templates it is kept, those that were asked for last."""

Outcome = Candidate | Status


class Outcomes:
    """What came of trying out nodes for one template, by node name."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Hashable, Outcome]] = {}

    def holds(self, name: str, rests_on: Hashable | None) -> bool:
        """Whether the node has been tried, and rests on the same as then."""
        known = self._of.get(name)
        return known is not None and rests_on is not None and known[0] == rests_on

    def outcome(self, name: str) -> Outcome:
        """What came of it. KeyError for a node that has not been tried."""
        return self._of[name][1]

    def keep(self, name: str, rests_on: Hashable | None, outcome: Outcome) -> None:
        """The node has been tried. It will be again after an error, or where nothing is known that it rests on."""
        failed = isinstance(outcome, Status) and outcome.code is Code.ERROR
        self._of[name] = None if failed else rests_on, outcome


class Remembered:
    """The outcomes by template."""

    def __init__(self) -> None:
        self._budgets = 0
        self._of: OrderedDict[int, Outcomes] = OrderedDict()

    def of(self, template: PodTemplate, budgets: int) -> Outcomes:
        """The outcomes of a template; `budgets` is the version of the disruption budgets: with another, all are new."""
        if budgets != self._budgets:
            self._budgets = budgets
            self._of.clear()
        outcomes = self._of.setdefault(template.id, Outcomes())
        self._of.move_to_end(template.id)
        if len(self._of) > _TEMPLATES:
            self._of.popitem(last=False)
        return outcomes
