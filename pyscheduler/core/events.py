"""What the machine is told: one frozen value for each thing that can happen, each with its time.

`at` is seconds on one clock that never runs backwards. The same events in the same order give the same commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.objects import NodeObject, PodObject


@dataclass(frozen=True, slots=True)
class PodChanged:
    """A pod was created or updated; which of the two, the machine knows itself."""

    at: float
    object: PodObject


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod was deleted, or left the watched set because it has ended."""

    at: float
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node was created or updated."""

    at: float
    object: NodeObject


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was deleted."""

    at: float
    name: str


@dataclass(frozen=True, slots=True)
class ObjectChanged:
    """An object of a kind that some plugin watches was created or updated."""

    at: float
    kind: ResourceKind
    object: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """An object of a kind that some plugin watches was deleted."""

    at: float
    kind: ResourceKind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Bound:
    """The binding cycle of a pod ended well: the API server has its node."""

    at: float
    uid: str


@dataclass(frozen=True, slots=True)
class BindFailed:
    """The binding cycle of a pod failed; `rejected` tells a plugin's "no" from an error."""

    at: float
    uid: str
    message: str
    plugin: str = ""
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class EvictFailed:
    """A victim could not be evicted: whoever waits for its room is to be tried again."""

    at: float
    preemptor_uid: str
    message: str
    victim_uid: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: backoffs end, Permit's waits run out."""

    at: float


Event = (
    PodChanged | PodGone | NodeChanged | NodeGone | ObjectChanged | ObjectGone | Bound | BindFailed | EvictFailed | Tick
)
