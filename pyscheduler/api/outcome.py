"""Results that plugins return. An expected rejection is a value here, not an exception.

The codes are those of kube-scheduler's framework (`Code` in k8s.io/kube-scheduler/framework).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Set
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.argument_checks import check_argument, check_items
from pyscheduler.api.pod import Pod


class Code(enum.IntEnum):
    """Status codes of the scheduling framework, in kube-scheduler's order and with its meaning."""

    SUCCESS = 0
    """Continue with the next plugin."""
    ERROR = 1
    """Internal error: the attempt ends and the pod is retried after its error backoff."""
    UNSCHEDULABLE = 2
    """The pod cannot be scheduled: preemption runs, then the pod waits for an event that may help it."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """The pod cannot be scheduled and evicting pods does not help: preemption skips this node."""
    WAIT = 4
    """Permit only: the pod waits until it is allowed, rejected or timed out."""
    SKIP = 5
    """PreFilter, PreScore, Bind: the plugin does not apply to this pod."""
    PENDING = 6
    """The pod cannot be scheduled until an external event, after which it is retried without backoff."""

    @property
    def camel(self) -> str:
        """Name as kube-scheduler prints it, such as `UnschedulableAndUnresolvable`."""
        return _CAMEL[self]


_CAMEL = {code: "".join(part.capitalize() for part in code.name.split("_")) for code in Code}


class Skip(enum.Enum):
    """Type of the constants `SKIP`, `SKIP_SIGNATURE` and `SKIP_SIGNATURE_GROUP`."""

    SKIP = "skip"
    SKIP_SIGNATURE = "skip signature"
    SKIP_SIGNATURE_GROUP = "skip template"


SKIP = Skip.SKIP
"""Skips the plugin's Filter (from PreFilter) or Score (from PreScore), or passes the pod to the next Bind plugin."""
SKIP_SIGNATURE = Skip.SKIP_SIGNATURE
"""Result of PreFilter and PreScore: SKIP, cached for all pods of the signature.

Valid if the result depends only on the signature, on node objects, on objects that the plugin watches, and, if its
`reads` is DOMAINS or wider and `skips_read_pods` is True, on which pod signature groups are assigned at all; for
example, for pods without volumes.
Not valid if it depends on where pods are assigned or how many, nor on fields in which pods of a signature group differ:
labels, annotations, names of claims and of nodes.
"""
SKIP_SIGNATURE_GROUP = Skip.SKIP_SIGNATURE_GROUP
"""Result of PreFilter and PreScore: SKIP, cached for all pods of the signature group.

It must hold for all labels, annotations, claims and node names of such pods: valid for pods without volumes, but not if
it depends on which claim a pod names.
"""


@dataclass(frozen=True, slots=True, init=False)
class Rejection:
    """Rejection of a pod, with the reasons for users.

    `resolvable=False` means that evicting pods cannot help (UnschedulableAndUnresolvable). `pending=True` means that
    the pod waits for an external event and skips its backoff when that occurs (Pending). TypeError if a reason is not a
    str.
    """

    reasons: tuple[str, ...]
    resolvable: bool
    pending: bool

    def __init__(self, *reasons: str, resolvable: bool = True, pending: bool = False) -> None:
        for reason in reasons:
            check_argument("Rejection", "a reason", reason, str, "a str")
        object.__setattr__(self, "reasons", reasons)
        object.__setattr__(self, "resolvable", resolvable)
        object.__setattr__(self, "pending", pending)

    @property
    def code(self) -> Code:
        """Status code: Unschedulable, UnschedulableAndUnresolvable or Pending."""
        if self.pending:
            return Code.PENDING
        return Code.UNSCHEDULABLE if self.resolvable else Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    @property
    def message(self) -> str:
        """Reasons joined by commas."""
        return ", ".join(self.reasons)


class NodeNames(msgspec.Struct, frozen=True):
    """Result of PreFilter that restricts the pod to these nodes (kube-scheduler's PreFilterResult)."""

    names: frozenset[str]

    def __post_init__(self) -> None:
        check_argument("NodeNames", "names", self.names, Set, "a frozenset")


class Wait(msgspec.Struct, frozen=True):
    """Result of Permit: the pod waits for at most `seconds` (capped at 15 minutes as in kube-scheduler).

    `reason` is shown in the pod's PodScheduled condition. `permit` is called again after matching events and once at
    the timeout; with `recheck_every`, also whenever that many seconds have passed.
    """

    seconds: float
    reason: str = ""
    recheck_every: float = 0.0

    def __post_init__(self) -> None:
        for field, value in (("seconds", self.seconds), ("recheck_every", self.recheck_every)):
            if not _is_number(value):
                shown = "nan" if value != value else type(value).__name__
                raise TypeError(f"Wait: {field} must be a number, not {shown}")
        check_argument("Wait", "reason", self.reason, str, "a str")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


class Nominate(msgspec.Struct, frozen=True):
    """Result of PostFilter: the pod is nominated to `node_name`, which fits once the pods of `evict` are gone.

    The pods are evicted in this order, except those that are terminating already. An empty `node_name` clears the pod's
    nomination. `message` ends the text of the pod's condition and of its FailedScheduling event.
    """

    node_name: str
    evict: tuple[Pod, ...] = ()
    message: str = ""

    def __post_init__(self) -> None:
        check_argument("Nominate", "node_name", self.node_name, str, "a str")
        check_items("Nominate", "evict", self.evict, Pod, "a tuple of Pods")
        check_argument("Nominate", "message", self.message, str, "a str")


class ClearNomination(msgspec.Struct, frozen=True):
    """Result of PostFilter: a rejection that clears the pod's nomination, because the nominated node will not fit."""

    rejection: Rejection

    def __post_init__(self) -> None:
        check_argument("ClearNomination", "rejection", self.rejection, Rejection, "a Rejection")


class StatusError(Exception):
    """Expected error of a plugin (code Error). The text is reported to users unchanged.

    Unlike other exceptions it is not treated as a bug of the plugin. Raised in PostFilter, it ends the extension point.
    """


class Status(msgspec.Struct, frozen=True):
    """Result of a plugin with the plugin's name, for diagnoses, events and `evaluate`."""

    code: Code
    plugin: str = ""
    reasons: tuple[str, ...] = ()

    @staticmethod
    def of(plugin: str, rejection: Rejection) -> Status:
        """Return the status of a plugin's rejection."""
        return Status(rejection.code, plugin, rejection.reasons)

    @property
    def message(self) -> str:
        """Reasons joined by commas."""
        return ", ".join(self.reasons)

    @property
    def rejected(self) -> bool:
        """True for Unschedulable, UnschedulableAndUnresolvable and Pending (kube-scheduler's Status.IsRejected)."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


class NodeToStatus:
    """Filter results for all nodes of a table (kube-scheduler's NodeToStatus).

    `codes[i]` is 0 if node `i` fits; otherwise `rejections[codes[i] - 1]` is its rejection.
    """

    __slots__ = ("_codes", "_n", "rejections")

    def __init__(self, n: int) -> None:
        self._n = n
        self._codes: NDArray[np.int32] | None = None
        self.rejections: list[Rejection] = []

    def __len__(self) -> int:
        return self._n if self._codes is None else len(self._codes)

    @property
    def codes(self) -> NDArray[np.int32]:
        """One code per node, allocated on first use: most plugins accept most pods everywhere."""
        if self._codes is None:
            self._codes = np.zeros(self._n, np.int32)
        return self._codes

    @codes.setter
    def codes(self, codes: NDArray[np.int32]) -> None:
        self._codes = codes

    @property
    def has_codes(self) -> bool:
        """False if no code was ever read or set: then all nodes fit."""
        return self._codes is not None

    def reject(self, mask: NDArray[np.bool_], rejection: Rejection) -> None:
        """Reject the nodes in `mask` (bool, one entry per node) that are not rejected yet: the first rejection wins."""
        self.rejections.append(rejection)
        if self._codes is None:
            self._codes = mask * np.int32(len(self.rejections))
        else:
            # Addition is branch-free: many times faster than masked assignment if the mask is mixed.
            self._codes += (mask & (self._codes == 0)) * np.int32(len(self.rejections))

    def at(self, i: int) -> Rejection | None:
        """Return the rejection of node `i`, or None if it fits."""
        code = int(self.codes[i])
        return self.rejections[code - 1] if code else None
