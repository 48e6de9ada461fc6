"""Parts of a scenario: what it sets up, the rows that it measures, and the values that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bench.decide.cluster import Actions, Cluster
from pyscheduler.core.commands import Command


class Row(NamedTuple):
    """A repeated action on the cluster of a scenario; its CPU time is measured."""

    name: str
    prepare: Callable[[int], Actions]
    """Unmeasured: create the objects of this many actions, and return the actions."""
    finish: Callable[[Sequence[Command]], int]
    """Unmeasured: complete a round, given its commands; return the number of actions with the right outcome."""
    warm_up: int = 2
    """Actions before the first round."""
    per_round: int | None = None
    """Actions in a round, if not `Size.pods`."""
    rounds: int | None = None
    """Maximum number of rounds."""
    unit: str = "µs"
    per_microsecond: float = 1.0
    """Value in `unit` of one microsecond of CPU time per action."""


class Reading(NamedTuple):
    """A value that a scenario reads from the process instead of a measured time."""

    name: str
    value: float
    unit: str


class Scenario(NamedTuple):
    """A named situation of a production cluster."""

    name: str
    sentence: str
    set_up: Callable[[Cluster], Iterator[Row | Reading]]
    """Set up the cluster; each row is measured before the next one is set up, on the same cluster."""
    config: str = ""
    """Configuration as YAML; "" is kube-scheduler's default profile."""
    adds_nodes: bool = False
    """True if the scenario adds the nodes to an empty cluster."""
