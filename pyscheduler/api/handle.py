"""The narrow door through which a plugin reaches the rest of the scheduler.

Decisions get a `Handle`: listers and waiting pods, no client. Plugins that act (PreBind, Bind, PostBind) get an
`ApiWriter` at the call, so that a Filter can never reach the API server.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.events import ResourceKind
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.outcome import NodeToStatus, Status
from pyscheduler.api.pod import Pod


class WaitingPod(Protocol):
    """A pod parked by Permit, its place on `node_name` held."""

    @property
    def pod(self) -> Pod: ...

    @property
    def node_name(self) -> str: ...

    @property
    def pending_plugins(self) -> frozenset[str]:
        """The plugins that still hold it."""

    def allow(self, plugin: str) -> None:
        """`plugin` lets the pod go; it is bound once no plugin holds it."""

    def reject(self, plugin: str, message: str) -> None:
        """`plugin` sends the pod back to the queue."""


class DryRun(Protocol):
    """What would be if other pods ran on one node.

    Filter is shown a copy of the node, and the PreFilter plugins of the attempt are told of each pod (`remove_pod`,
    `add_pod`), except those that answered SKIP. All other views of the cluster stay as they are.
    """

    def remove(self, victim: Pod) -> None:
        """Take a pod off the node. KeyError if it is not there."""

    def add(self, pod: Pod) -> None:
        """Put a pod on the node."""

    def run_filters(self) -> Status | None:
        """Why the attempt's pod does not fit the node now, or None. Code Error where a plugin raised StatusError.

        As in every attempt the answer must be "fits" twice where others of the same or a higher priority are nominated
        to the node: once as if they ran there, once without.
        """


class Handle(Protocol):
    """What every plugin is given at construction."""

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """The pods parked by Permit."""

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """One parked pod, or None."""

    def activate(self, pods: Iterable[Pod]) -> None:
        """Make pending pods active at once, whatever backoff they are in; unknown pods are ignored."""

    def objects(self, kind: ResourceKind) -> Mapping[tuple[str, str], dict[str, Any]]:
        """The objects of a watched kind by (namespace, name), as last seen; live. The kind must be in `watches`."""

    def objects_version(self, kind: ResourceKind) -> int:
        """Another number whenever an object of the kind has come, changed or gone."""

    def pods_by_label(self, key: str, namespace: str, value: str) -> Mapping[str, Pod]:
        """All known pods of a namespace that carry the label, by UID. The key must be in `indexes`."""

    def pods_by_pod_group(self, namespace: str, name: str) -> Mapping[str, Pod]:
        """The pods of a PodGroup (spec.schedulingGroup) by UID: those on a node, and those we are to place."""

    def is_assigned_or_assumed(self, uid: str) -> bool:
        """Whether a pod is on a node or on its way there with the place held (assigned or assumed)."""

    def nodes(self) -> NodeTable:
        """All nodes, as they are now."""

    def nodes_without_lower_priority(self, priority: int) -> NodeTable:
        """All nodes as they would be without their pods below a priority."""

    def dry_run(self, cycle: Cycle, pod: Pod, node_name: str) -> AbstractContextManager[DryRun]:
        """Try what would make `pod` fit a node, in PostFilter and with the attempt's own cycle.

        The cycle is as before when the `with` block ends, however it ends. KeyError for an unknown node.
        """

    def filter_without_lower_priority(self, cycle: Cycle, pod: Pod, priority: int) -> NodeToStatus:
        """Which of all nodes would refuse `pod` even without all of their pods below `priority`, and why.

        Found for all nodes at once, and only where plugins that look at no other node decide it: a node that is not
        rejected here may refuse the pod all the same, and a trial will tell.
        """

    def reprieve_pods(
        self, cycle: Cycle, pod: Pod, orders: Mapping[int, Sequence[Pod]]
    ) -> Mapping[int, Sequence[bool]]:
        """Which pods may stay if all below the priority of `pod` leave their node, and some are let back in an order.

        `orders` is by row of `nodes()`. Each of a node's pods stays if `pod` still fits beside it and those that were
        let stay before; whoever is not in the order does not come back. Found for all nodes at once, and only where
        `filter_without_lower_priority` did not reject the node and plugins that look at no other node decide it: a row that is
        missing in the answer takes trials.
        """

    def dry_run_cache_key(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Hashable | None:
        """What trials on a node rest on: while it is equal, they end as they did, for any pod of the same template.

        None if they rest on more than the node, its pods and those nominated to it.
        """

    def nominated_node(self, pod: Pod) -> str:
        """The node that a pending pod is promised, "" if there is none; known before the pod's status says so."""

    def clear_nominations(self, pods: Iterable[Pod]) -> None:
        """Give up the nodes that pending pods are nominated to, in memory and in their status.

        Pods that are not nominated may be among them: none of the pods is requeued for the room that this frees.
        """

    def is_preempting(self, uid: str) -> bool:
        """Whether pods are being evicted to make room for this one, and the API server has not let go of them all."""


class ApiWriter(Protocol):
    """What acting plugins are given at the call. Every method raises ApiError when the server refuses."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the binding of the pod to the node."""

    async def get(self, path: str) -> dict[str, Any]:
        """GET an API path such as `/api/v1/namespaces/a/persistentvolumeclaims/b`."""

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST an object to a collection path."""

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """PUT an object; its resourceVersion guards against lost updates."""

    async def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """PATCH an object with a JSON merge patch."""

    async def delete(self, path: str) -> None:
        """DELETE an object."""

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass; in tests time may be virtual."""


class ApiError(Exception):
    """The API server refused or could not be reached. `status` is the HTTP code, 0 when there was no answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
