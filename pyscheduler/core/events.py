"""Input events of the machine: one frozen struct for each kind, with its time.

`at` is seconds on a monotonic clock. The same events in the same order give the same commands. The tags and the order
of the fields are part of the format of recordings (`shell/recording/`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.core.extenders.extender import Extender, ExtenderResult
from pyscheduler.core.framework.profile import Profile


class PodChanged(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=0):
    """A pod was created or updated."""

    at: float
    object: PodObject


class PodFound(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=1):
    """A pod as just read from the API server: the reply to GetPod.

    Unlike PodChanged, which may be older than a binding, it proves that a pod without a node is not bound.
    """

    at: float
    object: PodObject


class PodGone(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=2):
    """A pod was deleted, or no longer matches the watch's field selector because it has ended."""

    at: float
    namespace: str
    name: str
    uid: str


class SucceededPodGone(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=3):
    """A pod in phase Succeeded was deleted."""

    at: float
    uid: str


class NodeChanged(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=4):
    """A node was created or updated."""

    at: float
    object: NodeObject


class NodeGone(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=5):
    """A node was deleted."""

    at: float
    name: str


class ObjectChanged(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=6):
    """An object of a kind that some plugin watches was created or updated."""

    at: float
    kind: ResourceKind
    object: dict[str, Any]


class ObjectGone(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=7):
    """An object of a kind that some plugin watches was deleted."""

    at: float
    kind: ResourceKind
    namespace: str
    name: str


class Bound(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=8):
    """The binding cycle of a pod succeeded: the API server has accepted the binding."""

    at: float
    uid: str


class BindFailed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=9):
    """The binding cycle of a pod failed; `rejected` is True for a plugin's rejection, False for an error."""

    at: float
    uid: str
    message: str
    plugin: str = ""
    rejected: bool = False


class EvictFailed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=10):
    """A victim could not be evicted: its preemptor must be retried."""

    at: float
    preemptor_uid: str
    message: str
    victim_uid: str = ""


class Reconfigured(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """New profiles, extenders and backoffs (seconds) are in effect."""

    at: float
    profiles: tuple[Profile, ...]
    initial_backoff: float
    max_backoff: float
    extenders: tuple[Extender, ...] = ()


class ExtendersResponded(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Replies to the CallExtenders with this id: one result or failure for each of its calls, in its order."""

    at: float
    id: int
    results: tuple[ExtenderResult, ...]


class Tick(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=13):
    """Time has passed: backoffs and Permit timeouts may have expired."""

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
