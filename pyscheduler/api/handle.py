"""Interfaces through which plugins read scheduler state and call the API server.

Deciding extension points get a `Handle`, which has an attribute for each concern but no client. Acting ones (PreBind,
Bind, PostBind) get an `ApiWriter` as an argument, so that no Filter can call the API server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.argument_checks import check_argument
from pyscheduler.api.cycle import Cycle
from pyscheduler.api.events import ResourceKind
from pyscheduler.api.metrics import PluginMetric
from pyscheduler.api.nodes import Mask, NodeTable
from pyscheduler.api.outcome import NodeToStatus, Status
from pyscheduler.api.pod import Pod
from pyscheduler.api.victims import PotentialVictims, Reprieve

T = TypeVar("T")


class WaitingPod(Protocol):
    """Pod that waits in Permit with its resources assumed on `node_name` (kube-scheduler's WaitingPod)."""

    @property
    def pod(self) -> Pod:
        """Pod that waits."""

    @property
    def node_name(self) -> str:
        """Name of the node on which the pod is assumed."""

    @property
    def pending_plugins(self) -> frozenset[str]:
        """Names of the Permit plugins that have not allowed the pod yet."""

    def allow(self, plugin: str) -> None:
        """Record the approval of `plugin`. The pod is bound once no plugin is pending."""

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod on behalf of `plugin`. It is unreserved and requeued with the message."""


class DryRun(Protocol):
    """Dry run of removing and adding pods on one node.

    Filter plugins see a copy of the node. The PreFilter plugins of the attempt, except those that returned SKIP, update
    their state in `remove_pod` and `add_pod`. All other views of the cluster are unchanged.
    """

    def remove(self, victim: Pod) -> None:
        """Remove a pod from the copy of the node. KeyError if it is not there."""

    def add(self, pod: Pod) -> None:
        """Add a pod to the copy of the node."""

    def run_filters(self) -> Status | None:
        """Return the status that rejects the attempt's pod on the node as it is now, or None if it fits.

        The code is Error if a plugin raised StatusError. If pods of equal or higher priority are nominated to the node,
        the pod must fit with them and without them (kube-scheduler's RunFilterPluginsWithNominatedPods).
        """


class NodeLister(Protocol):
    """Nodes of the cluster (kube-scheduler's NodeInfoLister)."""

    def table(self) -> NodeTable:
        """Return the table of all nodes. Call this again in each plugin call: a changed node invalidates the table."""

    def table_without_lower_priority(self, priority: int) -> NodeTable:
        """Return the table of all nodes without their pods of a priority lower than this."""


class PodLister(Protocol):
    """Cached pods of the cluster, by the indexes of the plugins (client-go's Indexer)."""

    def by_label(self, key: str, namespace: str, value: str) -> Mapping[str, Pod]:
        """Return the cached pods of a namespace with this label value, by UID. The key must be in `indexes`."""

    def by_pod_group(self, namespace: str, name: str) -> Mapping[str, Pod]:
        """Return the pods of a PodGroup (spec.schedulingGroup, KEP-4671) by UID.

        They are the assigned ones and those pending pods that this scheduler is responsible for.
        """

    def is_assigned_or_assumed(self, uid: str) -> bool:
        """Return True if the pod with this UID is assigned to a node or assumed on one."""


class WatchedObjects(Protocol):
    """Cached objects of the kinds in `watches` (client-go's shared informers)."""

    def __getitem__(self, kind: ResourceKind) -> Mapping[tuple[str, str], dict[str, Any]]:
        """Return the cached objects of a kind by (namespace, name), as a live view. The kind must be in `watches`."""

    def version(self, kind: ResourceKind) -> int:
        """Return a number that changes whenever an object of the kind is added, updated or deleted."""

    def changed_since(self, kind: ResourceKind, version: int) -> Collection[tuple[str, str]] | None:
        """Return the (namespace, name) of the objects that were added, updated or deleted after `version`.

        For an index that a plugin keeps up to date. None if the changes are too many or too old: read all objects.
        """


class WaitingPods(Protocol):
    """Pods that wait in Permit."""

    def __iter__(self) -> Iterator[WaitingPod]:
        """Iterate over the waiting pods (kube-scheduler's IterateOverWaitingPods)."""

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod with this UID, or None."""


class PodNominator(Protocol):
    """Nominated nodes of pending pods."""

    def nominated_node(self, pod: Pod) -> str:
        """Return the nominated node of a pending pod, "" if there is none. Set before the pod's status is updated."""

    def clear(self, pods: Iterable[Pod]) -> None:
        """Clear the nominations of pending pods, in memory and in status.nominatedNodeName.

        Pods without a nomination are ignored. The freed room requeues none of these pods.
        """


class PendingEvictions(Protocol):
    """Evictions of preemption victims that have not taken effect yet."""

    def is_preempting(self, uid: str) -> bool:
        """Return True while pods that were evicted for the pod with this UID still exist in the API server."""


class ApiDispatcher(Protocol):
    """API calls that no extension point waits for (kube-scheduler's APIDispatcher)."""

    def add(self, plugin: str, call: ApiCall) -> None:
        """Start `call` after the plugin's call, with an API client. If it raises, the error is logged."""


class DryRuns(Protocol):
    """Dry runs of preemption. Only for PostFilter, with the cycle of the attempt."""

    def open(self, cycle: Cycle, pod: Pod, node_name: str) -> AbstractContextManager[DryRun]:
        """Return a context manager for a dry run on one node.

        The cycle's state is restored when the `with` block ends. KeyError if the node does not exist.
        """

    def filter_without_lower_priority(
        self, cycle: Cycle, pod: Pod, rows: NDArray[np.intp]
    ) -> tuple[NodeToStatus, Mask]:
        """Return the status of some nodes without all of their pods of a lower priority than `pod`.

        `rows` are indexes in the table of all nodes. All nodes are evaluated at once, as far as the plugins depend on
        the node and its pods alone. The mask holds the nodes that are not rejected but may reject the pod nevertheless:
        only a dry run decides.
        """

    def reprieve_pods(self, cycle: Cycle, pod: Pod, victims: PotentialVictims) -> Reprieve:
        """Return which potential victims can stay if `pod` is placed on their node.

        All pods of a lower priority than `pod` are removed from each node; the potential victims, which must be such
        pods, are then added back in order, each if `pod` still fits. All nodes are evaluated at once. They must be
        nodes that `filter_without_lower_priority` accepts without needing a dry run.
        """


class Handle(Protocol):
    """Scheduler state that a plugin gets at construction (kube-scheduler's framework.Handle, without the client).

    The attributes are live and do not change: a plugin may store those that it needs in its constructor. `activate`,
    `nominator.clear`, and `allow` and `reject` of waiting pods take effect after the plugin's call.
    """

    @property
    def nodes(self) -> NodeLister:
        """Nodes of the cluster."""

    @property
    def pods(self) -> PodLister:
        """Cached pods by label and by PodGroup."""

    @property
    def objects(self) -> WatchedObjects:
        """Cached objects of the kinds in `watches`."""

    @property
    def waiting_pods(self) -> WaitingPods:
        """Pods that wait in Permit."""

    @property
    def nominator(self) -> PodNominator:
        """Nominated nodes of pending pods."""

    @property
    def evictions(self) -> PendingEvictions:
        """Evictions of preemption victims that have not taken effect yet."""

    @property
    def dry_runs(self) -> DryRuns:
        """Dry runs of preemption."""

    @property
    def api_dispatcher(self) -> ApiDispatcher:
        """API calls that no extension point waits for, such as the release of a claim in Unreserve."""

    def shared(self, factory: Callable[[Handle], T]) -> T:
        """Return what `factory` returns for this handle; it is called once for all plugins of all profiles.

        For state that must be one for the cluster, as kube-scheduler's SharedDRAManager. `factory` is usually a class.
        """

    def delegated_resources(self, requested: Iterable[str]) -> Set[str]:
        """Return the requested resources that nodes need not list, since a plugin checks them where they do not.

        Those that a Filter plugin of any profile returns: devices may provide extended resources (KEP-5004).
        """

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pending pods to the active queue without backoff. Unknown pods are ignored.

        kube-scheduler's Handle.Activate.
        """

    def gating_plugin(self, pod: Pod) -> str:
        """Return the name of the PreEnqueue plugin that gates a pending pod, "" if none does.

        GatingPlugin of kube-scheduler's QueuedPodInfo. While an event is evaluated, pods that it has not reached yet
        still have the plugin that gated them before. Not for use in a plugin's constructor: there is no queue yet.
        """


class ApiWriter(Protocol):
    """API client of PreBind, Bind and PostBind plugins. Every method raises ApiError if the request fails."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Create the Binding of the pod to the node."""

    async def get(self, path: str) -> dict[str, Any]:
        """Return the object at an API path such as `/api/v1/namespaces/a/persistentvolumeclaims/b`."""

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object by a POST to a collection path and return it."""

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object by a PUT and return it. A stale resourceVersion in `body` raises ApiError 409."""

    async def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Apply a JSON merge patch and return the patched object."""

    async def delete(self, path: str) -> None:
        """Delete the object at an API path."""

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds. Time may be virtual in tests."""

    def timestamp(self) -> str:
        """Return the current time as API objects have it (RFC 3339, whole seconds, UTC)."""

    def record(self, pod: Pod, reason: str, action: str, note: str) -> None:
        """Queue a Normal Event about the pod, to be written later; it may be lost (kube-scheduler's EventRecorder)."""

    def observe(self, metric: PluginMetric, labels: tuple[str, ...] = (), value: float = 1) -> None:
        """Add `value` to a counter, or to a histogram as one observation. ValueError if the labels do not match.

        A metric exists from its first observation. Its name must not be that of another metric.
        """


ApiCall = Callable[[ApiWriter], Awaitable[None]]
"""Makes API requests with the client that it is given."""


class ApiError(Exception):
    """Failed API request.

    `status` is the HTTP code, 0 if no response arrived; `reason` is the one of the Status object. TypeError if an
    argument has the wrong type.
    """

    status: int = 0
    reason: str = ""

    def __init__(self, status: int, reason: str, message: str) -> None:
        check_argument("ApiError", "status", status, int, "an int")
        check_argument("ApiError", "reason", reason, str, "a str")
        check_argument("ApiError", "message", message, str, "a str")
        super().__init__(message)
        self.status = status
        self.reason = reason
