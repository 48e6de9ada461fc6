"""Preemption as `evaluate` and `explain` see it: every candidate that was found, and how one was chosen among them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import msgspec

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code
from pyscheduler.api.plugin import PostFilterPlugin
from pyscheduler.api.pod import Pod


class Candidate(msgspec.Struct, frozen=True):
    """A node that fits the pod once the victims are gone, the most important victim first."""

    victims: tuple[Pod, ...]
    pdb_violations: int = 0
    """How many victims a PodDisruptionBudget would have kept."""


class PreemptionSearch(msgspec.Struct, frozen=True):
    """The outcome of looking for room: success with a node to be nominated, or why there is none."""

    status: Code
    message: str = ""
    """What the FailedScheduling event says of it; "" after a success."""
    nominated_node: str | None = None
    """The new nominated node; "" takes the old one back, None leaves it as it is."""
    candidates: Mapping[str, Candidate] = msgspec.field(default_factory=dict)
    """By node name."""
    ties: tuple[str, ...] = ()
    """The candidates that are equally good; the nominated node is one of them."""

    @property
    def victims(self) -> tuple[Pod, ...]:
        """The pods that have to go from the nominated node."""
        return self.candidates[self.nominated_node].victims if self.nominated_node else ()


class PreemptionPlugin(PostFilterPlugin):
    """Makes room by evicting pods. Its attempts and victims are counted under kube-scheduler's metric names."""

    @abstractmethod
    def search(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> PreemptionSearch:
        """Look at all nodes, whatever share of them `post_filter` would have looked at; nothing is set in motion."""

    def choose(self, candidates: Mapping[str, Candidate]) -> str:
        """The node to be nominated, of what extenders have left of the candidates: the first one, where all are equal.

        There is at least one.
        """
        return next(iter(candidates))
