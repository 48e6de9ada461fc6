"""What trying out nodes has shown, kept for the next pod of the template.

Preemptors come by the hundred, and each tries as many nodes as the one before: between two of them hardly any node has
changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from pyscheduler.api import Candidate, Code, Status
from pyscheduler.api.pod import PodSignatureGroup

_TEMPLATES = 16
"""For so many templates it is kept, those that were asked for last."""

DryRunOutcome = Candidate | Status


class NodeOutcomes:
    """What came of trying out nodes for one template, by node name."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Hashable, DryRunOutcome]] = {}

    def is_current(self, name: str, depends_on: Hashable | None) -> bool:
        """Whether the node has been tried, and rests on the same as then."""
        known = self._of.get(name)
        return known is not None and depends_on is not None and known[0] == depends_on

    def outcome(self, name: str) -> DryRunOutcome:
        """What came of it. KeyError for a node that has not been tried."""
        return self._of[name][1]

    def store(self, name: str, depends_on: Hashable | None, outcome: DryRunOutcome) -> None:
        """The node has been tried. It will be again after an error, or where nothing is known that it rests on."""
        failed = isinstance(outcome, Status) and outcome.code is Code.ERROR
        self._of[name] = None if failed else depends_on, outcome


class DryRunCache:
    """The outcomes by template."""

    def __init__(self) -> None:
        self._budgets = 0
        self._of: OrderedDict[int, NodeOutcomes] = OrderedDict()

    def of(self, template: PodSignatureGroup, budgets: int) -> NodeOutcomes:
        """The outcomes of a template; `budgets` is the version of the disruption budgets: with another, all are new."""
        if budgets != self._budgets:
            self._budgets = budgets
            self._of.clear()
        outcomes = self._of.setdefault(template.id, NodeOutcomes())
        self._of.move_to_end(template.id)
        if len(self._of) > _TEMPLATES:
            self._of.popitem(last=False)
        return outcomes
