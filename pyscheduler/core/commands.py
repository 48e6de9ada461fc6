"""Commands of the machine: the shell carries them out in order and reports the outcomes as events."""

from __future__ import annotations

import enum

from msgspec import Struct
from msgspec.structs import replace

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.events import ResourceKind
from pyscheduler.api.handle import ApiCall
from pyscheduler.api.plugin import BindPlugin, PostBindPlugin, PreBindPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.extenders.extender import ExtenderCall


class BindingPlan(Struct, frozen=True):
    """Plugins of a profile's binding cycle, each extension point in its order."""

    pre_bind: tuple[PreBindPlugin, ...]
    bind: tuple[BindPlugin, ...]
    post_bind: tuple[PostBindPlugin, ...]


class Bind(Struct, frozen=True):
    """Run the binding cycle of an assumed pod; reply with Bound or BindFailed."""

    pod: Pod
    node_name: str
    cycle: Cycle
    plan: BindingPlan


class CancelBinding(Struct, frozen=True):
    """Cancel the binding cycle of a pod that was forgotten: it is deleted, terminating, or bound to another node.

    There is no reply, and the one to `Bind` may have been sent already.
    """

    uid: str


class Condition(Struct, frozen=True, gc=False):
    """PodScheduled condition to write, always with status False."""

    reason: str
    message: str


class PatchStatus(Struct, frozen=True, gc=False):
    """Patch a pod's PodScheduled condition and nominated node; None leaves either unchanged, "" clears the node."""

    pod: Pod
    condition: Condition | None = None
    nominated_node_name: str | None = None

    def after(self, earlier: PatchStatus) -> PatchStatus:
        """Return this patch merged into an earlier one that has not been sent yet."""
        condition = earlier.condition if self.condition is None else self.condition
        node = earlier.nominated_node_name if self.nominated_node_name is None else self.nominated_node_name
        return PatchStatus(self.pod, condition, node)


class PatchPodGroup(Struct, frozen=True, gc=False):
    """Set a condition of a PodGroup object: whether its pods are scheduled."""

    kind: ResourceKind
    namespace: str
    name: str
    uid: str
    type: str
    status: str
    """`True` or `False`."""
    reason: str
    message: str


class EventType(enum.StrEnum):
    """Types of a Kubernetes event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Record(Struct, frozen=True, gc=False):
    """Create an events.k8s.io/v1 Event about a pod; `note` is truncated to 1,024 bytes when it is sent."""

    type: EventType
    reason: str
    action: str
    note: str
    regarding: Pod
    related: Pod | None = None


class Evict(Struct, frozen=True):
    """Set the DisruptionTarget condition of a victim and delete it; reply with EvictFailed if that fails.

    A victim in PreBind is not deleted: its binding is cancelled, and BindFailed reports it. `then` is recorded after
    a successful eviction, and not for a victim that no longer existed.
    """

    victim: Pod
    preemptor: Pod
    message: str
    then: Record | None = None
    plugin: str = ""
    """Name of the plugin that chose the victim."""

    def cancelled_record(self) -> Record | None:
        """Return the record for a victim that was still being bound and had its binding cancelled."""
        return self.then and replace(self.then, note=f"{self.then.note}{IN_MEMORY}")


class GetPod(Struct, frozen=True):
    """Read a pod that has an accepted binding but no confirmation by the watch; reply with PodFound or PodGone.

    The command is repeated until there is a reply.
    """

    pod: Pod


class CallExtenders(Struct, frozen=True):
    """Send concurrent calls to extenders for a pod; reply with ExtendersResponded. No other attempt starts before."""

    id: int
    pod: Pod
    calls: tuple[ExtenderCall, ...]


class CallApi(Struct, frozen=True):
    """Make an API call of a plugin that no extension point waits for. There is no reply; failures are logged."""

    plugin: str
    call: ApiCall
    retries: bool = False
    """True if a call that fails is made again until it succeeds, after pauses that get longer."""


IN_MEMORY = " (in kube-scheduler memory)."
"""Suffix of the note on a victim that was only assumed; kube-scheduler's text."""
Command = Bind | CancelBinding | PatchStatus | PatchPodGroup | Evict | Record | GetPod | CallExtenders | CallApi
