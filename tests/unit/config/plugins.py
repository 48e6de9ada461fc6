"""Plugins for configuration tests with various extension points and args."""

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
    """Filter and Score plugin with a default weight of 7."""

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
    """QueueSort plugin with args."""

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
    """Plugin with args of every type."""

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
                raise ValueError("this is invalid")


class Typo(FilterPlugin):
    name = "Typo"

    def fitler(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None


class Nameless(Second):
    name = ""


class Impostor(Second):
    """Class with the name of a plugin of kube-scheduler."""

    name = "NodeName"


class Namesake(Second):
    """Class with the name of an installed plugin."""


class LooseArgs(Second):
    name = "LooseArgs"
    Args = dict


class Lost(Second):
    name = "Lost"

    @dataclass(frozen=True)
    class Args:
        what: Undefined = None  # type: ignore[name-defined]  # noqa: F821 - intended


class Stranger:
    name = "Stranger"


not_a_class = 5
