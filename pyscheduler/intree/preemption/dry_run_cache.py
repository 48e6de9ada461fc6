"""Cache of preemption dry runs per signature group.

Hundreds of pods of one template may preempt one after the other and dry-run the same nodes, of which hardly any has
changed in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from pyscheduler.api import Candidate, Code, Status
from pyscheduler.api.pod import PodSignatureGroup

_MAX_GROUPS = 16
"""Signature groups cached at most, by least recent use."""

DryRunOutcome = Candidate | Status


class NodeOutcomes:
    """Dry-run outcomes of one signature group, by node name."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Hashable, DryRunOutcome]] = {}

    def is_current(self, name: str, cache_key: Hashable | None) -> bool:
        """Return True if there is an outcome for the node that was computed from the same cache key."""
        cached = self._of.get(name)
        return cached is not None and cache_key is not None and cached[0] == cache_key

    def outcome(self, name: str) -> DryRunOutcome:
        """Return the cached outcome. KeyError if there is none."""
        return self._of[name][1]

    def store(self, name: str, cache_key: Hashable | None, outcome: DryRunOutcome) -> None:
        """Store an outcome. It is never current if it is an error or if there is no cache key."""
        failed = isinstance(outcome, Status) and outcome.code is Code.ERROR
        self._of[name] = None if failed else cache_key, outcome


class DryRunCache:
    """Dry-run outcomes by signature group."""

    def __init__(self) -> None:
        self._budgets = 0
        self._of: OrderedDict[int, NodeOutcomes] = OrderedDict()

    def of(self, template: PodSignatureGroup, budgets: int) -> NodeOutcomes:
        """Return the outcomes of a signature group. A new version of the PDBs (`budgets`) invalidates all outcomes."""
        if budgets != self._budgets:
            self._budgets = budgets
            self._of.clear()
        outcomes = self._of.setdefault(template.id, NodeOutcomes())
        self._of.move_to_end(template.id)
        if len(self._of) > _MAX_GROUPS:
            self._of.popitem(last=False)
        return outcomes
