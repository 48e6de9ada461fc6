"""Plugins to configure: they decide nothing, what matters is which points they serve and what args they take."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Literal

from pyscheduler.api import (
    Cycle,
    FilterPlugin,
    NodeInfo,
    NodeTable,
    Pod,
    PreFilterPlugin,
    QueuedPod,
    QueueSortPlugin,
    ScorePlugin,
)


class Chatty(FilterPlugin, ScorePlugin):
    """Filters and scores, and weighs 7 by itself."""

    name = "Chatty"
    weight = 7

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 0


class Second(PreFilterPlugin, FilterPlugin):
    name = "Second"

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        return None

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None


class ByName(QueueSortPlugin):
    """A queue sort with args."""

    name = "ByName"

    @dataclass(frozen=True)
    class Args:
        reverse: bool = False

    def sort_key(self, queued: QueuedPod) -> str:
        return queued.pod.name


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Picky(Chatty):
    """Takes args of every kind."""

    name = "Picky"

    @dataclass(frozen=True)
    class Rule:
        key: str
        weight: int = 1

    @dataclass(frozen=True)
    class Args:
        label: str
        colour: Colour = Colour.RED
        mode: Literal["soft", "hard"] = "soft"
        rules: tuple[Picky.Rule, ...] = ()
        limits: dict[str, int] | None = None
        patience: Annotated[float, "duration"] = 5.0
        ratio: float = 0.5

        def __post_init__(self) -> None:
            if self.ratio < 0:
                raise ValueError("ratio: must not be negative")
            if self.label == "forbidden":
                raise ValueError("this will not do")


class Typo(FilterPlugin):
    name = "Typo"

    def fitler(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None


class Nameless(Second):
    name = ""


class Impostor(Second):
    """Another class that claims the name of kube-scheduler's plugin."""

    name = "NodeName"


class Namesake(Second):
    """Another class that claims the name of an installed plugin."""


class LooseArgs(Second):
    name = "LooseArgs"
    Args = dict


class Lost(Second):
    name = "Lost"

    @dataclass(frozen=True)
    class Args:
        what: Undefined = None  # type: ignore[name-defined]  # noqa: F821 - that is what the test is about


class Stranger:
    name = "Stranger"


not_a_class = 5
