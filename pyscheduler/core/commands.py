"""What the machine wants done: values that the shell carries out, in order, and answers with events."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from msgspec import Struct

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.plugin import BindPlugin, PostBindPlugin, PreBindPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.extender import ExtenderCall


class BindingPlan(Struct, frozen=True):
    """The plugins of a profile's binding cycle, in the order in which they act."""

    pre_bind: tuple[PreBindPlugin, ...]
    bind: tuple[BindPlugin, ...]
    post_bind: tuple[PostBindPlugin, ...]


class Bind(Struct, frozen=True):
    """Run the binding cycle of an assumed pod; answer with Bound or BindFailed."""

    pod: Pod
    node_name: str
    cycle: Cycle
    plan: BindingPlan


class CancelBinding(Struct, frozen=True):
    """End the binding cycle of a pod that has lost its place: it is gone, on its way out, or on another node.

    There is no answer. `Bind` may have been answered already.
    """

    uid: str


@dataclass(frozen=True, slots=True)
class Condition:
    """The PodScheduled condition to be written, always with status False."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write a pod's PodScheduled condition and nominated node; None leaves either as it is, "" clears the node."""

    pod: Pod
    condition: Condition | None = None
    nominated_node_name: str | None = None

    def after(self, earlier: PatchStatus) -> PatchStatus:
        """Both in one, where the earlier one has not been carried out yet."""
        condition = earlier.condition if self.condition is None else self.condition
        node = earlier.nominated_node_name if self.nominated_node_name is None else self.nominated_node_name
        return PatchStatus(self.pod, condition, node)


class EventType(enum.StrEnum):
    """The two types of a Kubernetes event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Record:
    """Write an events.k8s.io/v1 Event about a pod; `note` is cut to 1,024 bytes when it is sent."""

    type: EventType
    reason: str
    action: str
    note: str
    regarding: Pod
    related: Pod | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a victim after marking it with the DisruptionTarget condition; answer with EvictFailed if that fails.

    A victim in PreBind is not deleted: its binding is called off, and BindFailed tells so. `then` is recorded once it
    is done; a victim that was gone already needs nothing.
    """

    victim: Pod
    preemptor: Pod
    message: str
    then: Record | None = None
    plugin: str = ""
    """Who chose the victim."""

    def cancelled_record(self) -> Record | None:
        """What is recorded of a victim whose binding was called off."""
        return self.then and replace(self.then, note=f"{self.then.note}{IN_MEMORY}")


class GetPod(Struct, frozen=True):
    """Read a pod that is bound by an accepted call and not by any watch; answer with PodFound or PodGone.

    Without an answer the command comes again.
    """

    pod: Pod


class CallExtenders(Struct, frozen=True):
    """Ask extenders about a pod, all calls at once; answer with ExtendersResponded. Until then no other attempt is made."""

    id: int
    pod: Pod
    calls: tuple[ExtenderCall, ...]


IN_MEMORY = " (in kube-scheduler memory)."
"""Ends the notes on victims that had only begun to arrive, as kube-scheduler's do."""
Command = Bind | CancelBinding | PatchStatus | Evict | Record | GetPod | CallExtenders
