"""What a plugin may answer: an expected "no" is a value here, never an exception.

The codes are those of kube-scheduler's framework (k8s.io/kube-scheduler/framework, `Code`), and each one says what the
scheduler will do next.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Set
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.pod import Pod


class Code(enum.IntEnum):
    """Status codes of the scheduling framework, in kube-scheduler's order and with its meaning."""

    SUCCESS = 0
    """Go on with the next plugin."""
    ERROR = 1
    """Something broke: the attempt ends, the pod is retried after its error backoff."""
    UNSCHEDULABLE = 2
    """Not now: preemption is tried, then the pod waits for an event that may help it."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Not now, and evicting pods would not help: preemption passes this node over."""
    WAIT = 4
    """Permit only: the pod is parked until it is allowed, rejected or its time is out."""
    SKIP = 5
    """PreFilter, PreScore, Bind: this plugin has nothing to say of this pod."""
    PENDING = 6
    """Not now: as soon as the awaited event comes, the pod is retried without backoff."""

    @property
    def camel(self) -> str:
        """The name as kube-scheduler prints it, e.g. `UnschedulableAndUnresolvable`."""
        return _CAMEL[self]


_CAMEL = {code: "".join(part.capitalize() for part in code.name.split("_")) for code in Code}


class Skip(enum.Enum):
    """The type of `SKIP`, `SKIP_SIGNATURE` and `SKIP_SIGNATURE_GROUP`, so that type checkers can tell them from other answers."""

    SKIP = "skip"
    SKIP_SIGNATURE = "skip signature"
    SKIP_SIGNATURE_GROUP = "skip template"


SKIP = Skip.SKIP
"""PreFilter and PreScore: leave my Filter (or Score) out of this attempt. Bind: let the next Bind plugin do it."""
SKIP_SIGNATURE = Skip.SKIP_SIGNATURE
"""PreFilter and PreScore: the same for every pod of the signature, and I am not asked again for now.

Right where the answer rests on the signature, on node objects, on objects that plugins watch, and on which templates of
pods are placed anywhere, such as for pods without volumes; but not on where those are placed or how many, nor on what
pods of one template differ in: labels, annotations, names of claims and of nodes.
"""
SKIP_SIGNATURE_GROUP = Skip.SKIP_SIGNATURE_GROUP
"""SKIP_SIGNATURE that holds for every pod of the template, whatever labels, annotations, claims and nodes it names itself.

So it is right for pods that have no volumes or name no claims, but not where it matters which.
"""


@dataclass(frozen=True, slots=True, init=False)
class Rejection:
    """A plugin's "no", with the reasons that people and alerts read.

    `resolvable=False` says that evicting pods cannot turn it into a "yes" (UnschedulableAndUnresolvable).
    `pending=True` says that the pod waits for something outside and should skip its backoff when that comes (Pending).
    """

    reasons: tuple[str, ...]
    resolvable: bool
    pending: bool

    def __init__(self, *reasons: str, resolvable: bool = True, pending: bool = False) -> None:
        for reason in reasons:
            if not isinstance(reason, str):
                raise TypeError(f"Rejection: a reason must be a str, not {type(reason).__name__}")
        object.__setattr__(self, "reasons", reasons)
        object.__setattr__(self, "resolvable", resolvable)
        object.__setattr__(self, "pending", pending)

    @property
    def code(self) -> Code:
        if self.pending:
            return Code.PENDING
        return Code.UNSCHEDULABLE if self.resolvable else Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


class NodeNames(msgspec.Struct, frozen=True):
    """PreFilter's answer when only these nodes can fit (kube-scheduler's PreFilterResult)."""

    names: frozenset[str]

    def __post_init__(self) -> None:
        if not isinstance(self.names, Set):
            raise TypeError(f"NodeNames: names must be a frozenset, not {type(self.names).__name__}")


class Wait(msgspec.Struct, frozen=True):
    """Permit's answer when the pod must wait, for at most `seconds` (capped at 15 minutes as in kube-scheduler).

    `reason` is shown in the pod's PodScheduled condition. With `recheck_every`, `permit` is run again each time that so
    many seconds have passed; without it, after events and once when the time is up.
    """

    seconds: float
    reason: str = ""
    recheck_every: float = 0.0

    def __post_init__(self) -> None:
        for field, value in (("seconds", self.seconds), ("recheck_every", self.recheck_every)):
            if not _is_number(value):
                shown = "nan" if value != value else type(value).__name__
                raise TypeError(f"Wait: {field} must be a number, not {shown}")
        if not isinstance(self.reason, str):
            raise TypeError(f"Wait: reason must be a str, not {type(self.reason).__name__}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


class Nominate(msgspec.Struct, frozen=True):
    """PostFilter's success: the pod is nominated to `node_name`, which fits it once the pods of `evict` are gone.

    The scheduler evicts them in that order, leaving out those that are on their way out already; "" as the node clears
    the pod's nomination.
    """

    node_name: str
    evict: tuple[Pod, ...] = ()


class ClearNomination(msgspec.Struct, frozen=True):
    """PostFilter's "no" that also takes back the pod's nomination: what the pod waited for will not help it."""

    rejection: Rejection


class StatusError(Exception):
    """Raised for an answer of code Error: something is as it should not be, and users read this text as it stands.

    Unlike other exceptions it is no bug of the plugin. PostFilter: no further plugin is asked.
    """


class Status(msgspec.Struct, frozen=True):
    """An outcome with the plugin that gave it: what diagnoses, events and `evaluate` report."""

    code: Code
    plugin: str = ""
    reasons: tuple[str, ...] = ()

    @staticmethod
    def of(plugin: str, rejection: Rejection) -> Status:
        return Status(rejection.code, plugin, rejection.reasons)

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def rejected(self) -> bool:
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


class NodeToStatus:
    """A Filter answer for each node of a table: `codes[i]` is 0 for "fits", else `rejections[codes[i] - 1]` is why not."""

    __slots__ = ("codes", "rejections")

    def __init__(self, n: int) -> None:
        self.codes: NDArray[np.int32] = np.zeros(n, np.int32)
        self.rejections: list[Rejection] = []

    def reject(self, mask: NDArray[np.bool_], rejection: Rejection) -> None:
        """Reject the nodes of `mask` (bool, one per node) that are not rejected yet: the first reason wins."""
        self.rejections.append(rejection)
        # Adding has no branches: many times as quick as assigning where a mask is mixed.
        self.codes += (mask & (self.codes == 0)) * np.int32(len(self.rejections))

    def at(self, i: int) -> Rejection | None:
        """The answer for node `i`, in the plain form's terms."""
        code = int(self.codes[i])
        return self.rejections[code - 1] if code else None
