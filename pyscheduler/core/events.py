"""What the machine is told: one frozen value for each thing that can happen, each with its time.

`at` is seconds on one clock that never runs backwards. The same events in the same order give the same commands.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.core.extender import Extender, ExtenderResult
from pyscheduler.core.framework.profile import Profile


class PodChanged(msgspec.Struct, frozen=True, gc=False):
    """A pod was created or updated; which of the two, the machine knows itself."""

    at: float
    object: PodObject


class PodFound(msgspec.Struct, frozen=True, gc=False):
    """A pod as the API server has it at this moment: the answer to GetPod.

    Unlike PodChanged, which may be older than a binding, it proves that a pod without a node is not bound.
    """

    at: float
    object: PodObject


class PodGone(msgspec.Struct, frozen=True, gc=False):
    """A pod was deleted, or left the watched set because it has ended."""

    at: float
    namespace: str
    name: str
    uid: str


class SucceededPodGone(msgspec.Struct, frozen=True, gc=False):
    """A pod that had run to its end with success was deleted."""

    at: float
    uid: str


class NodeChanged(msgspec.Struct, frozen=True, gc=False):
    """A node was created or updated."""

    at: float
    object: NodeObject


class NodeGone(msgspec.Struct, frozen=True, gc=False):
    """A node was deleted."""

    at: float
    name: str


class ObjectChanged(msgspec.Struct, frozen=True, gc=False):
    """An object of a kind that some plugin watches was created or updated."""

    at: float
    kind: ResourceKind
    object: dict[str, Any]


class ObjectGone(msgspec.Struct, frozen=True, gc=False):
    """An object of a kind that some plugin watches was deleted."""

    at: float
    kind: ResourceKind
    namespace: str
    name: str


class Bound(msgspec.Struct, frozen=True, gc=False):
    """The binding cycle of a pod ended well: the API server has its node."""

    at: float
    uid: str


class BindFailed(msgspec.Struct, frozen=True, gc=False):
    """The binding cycle of a pod failed; `rejected` tells a plugin's "no" from an error."""

    at: float
    uid: str
    message: str
    plugin: str = ""
    rejected: bool = False


class EvictFailed(msgspec.Struct, frozen=True, gc=False):
    """A victim could not be evicted: whoever waits for its room is to be tried again."""

    at: float
    preemptor_uid: str
    message: str
    victim_uid: str = ""


class Reconfigured(msgspec.Struct, frozen=True):
    """Other profiles decide from now on, and these extenders are asked; backoffs in seconds."""

    at: float
    profiles: tuple[Profile, ...]
    initial_backoff: float
    max_backoff: float
    extenders: tuple[Extender, ...] = ()


class ExtendersResponded(msgspec.Struct, frozen=True):
    """Extenders have answered, or failed to: one answer for each call of the CallExtenders with that id, in its order."""

    at: float
    id: int
    answers: tuple[ExtenderResult, ...]


class Tick(msgspec.Struct, frozen=True, gc=False):
    """Time has passed: backoffs end, Permit's waits run out."""

    at: float


Event = (
    PodChanged
    | PodFound
    | PodGone
    | SucceededPodGone
    | NodeChanged
    | NodeGone
    | ObjectChanged
    | ObjectGone
    | Bound
    | BindFailed
    | EvictFailed
    | Reconfigured
    | ExtendersResponded
    | Tick
)
