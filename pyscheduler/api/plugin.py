"""Extension points of the scheduling framework, one base class each.

A plugin inherits from the base class of each extension point that it implements. `def` methods decide and run in the
scheduling cycle; `async def` methods act and run in the binding cycle. The points, their order and their meaning are
those of kube-scheduler 1.37 (KEP-624).

The per-node form (`filter`, `score`) is the specification. The NumPy form (`filter_all`, `score_all`) is an
optimisation with equal results; without it, the base class loops over the per-node form.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.events import ANYTHING, ClusterEvent, ClusterEventWithHint, QueueingHint, ResourceKind
from pyscheduler.api.handle import ApiWriter, Handle, WaitingPod
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.normalize import Normalizer, Scores
from pyscheduler.api.outcome import ClearNomination, NodeNames, NodeToStatus, Nominate, Rejection, Skip, Wait
from pyscheduler.api.pod import Pod, PodSignatureGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.reads import NodeFields, Reads
from pyscheduler.api.return_values import FILTER_RETURNS, InvalidReturnValue, checked_scores
from pyscheduler.api.topology import NodeEquivalence


class Unsignable(enum.Enum):
    """Type of the constant `UNSIGNABLE`."""

    UNSIGNABLE = "unsignable"


UNSIGNABLE = Unsignable.UNSIGNABLE
"""Result of `sign_group` for pods whose results depend on more than their group, such as on ResourceClaims."""


@dataclass(frozen=True, slots=True)
class NoArgs:
    """Args of a plugin without arguments."""


class Plugin(ABC):
    """Base class of all plugins.

    An exception in a method fails the attempt: the pod is retried after its error backoff, and log, metrics and event
    name the plugin. StatusError does so without being logged as a bug.
    """

    name: ClassVar[str]
    """Name of the plugin in configurations."""
    Args: ClassVar[type] = NoArgs
    """Frozen dataclass into which `pluginConfig[].args` is decoded and validated at startup.

    A ValueError in `__post_init__` rejects the arguments with its message.
    """
    watches: ClassVar[tuple[ResourceKind, ...]] = ()
    """Additional kinds that the scheduler watches, to be read through `handle.objects[kind]`."""
    indexes: ClassVar[tuple[str, ...]] = ()
    """Pod label keys that are indexed for `handle.pods.by_label`."""
    counts_succeeded: ClassVar[bool] = False
    """Keep pods of phase Succeeded in `handle.pods.by_label` and `handle.pods.by_pod_group` until they are deleted.

    Applies to pods with the labels in `indexes`, or to all pods of PodGroups if `indexes` is empty. Other terminated
    pods are removed at once.
    """
    reads_labels: ClassVar[bool] = True
    """True if results may depend on the pod's labels or annotations.

    If False, cached results are shared by the pods of a StatefulSet or an indexed Job, which have labels of their own.
    """
    reads_annotations: ClassVar[bool] = True
    """True if results may depend on the pod's annotations; without effect if `reads_labels` is False."""
    reads_claims: ClassVar[bool] = True
    """True if results may depend on the names of the pod's PersistentVolumeClaims, unique for each StatefulSet pod."""
    reads_match_fields: ClassVar[bool] = True
    """True if results may depend on `matchFields` of the required node affinity, unique for each DaemonSet pod."""
    hints_read_identity: ClassVar[bool] = False
    """True if queueing hints read more of a pod than its cached results depend on; they are called for each pod."""
    skip_includes_reserve: ClassVar[bool] = False
    """True if a pod that the plugin's PreFilter skips needs no Reserve and no PreBind by the plugin either.

    They are not called then. Otherwise SKIP applies to Filter only, as in kube-scheduler.
    """
    checks_resizes: ClassVar[bool] = True
    """False if PreFilter, Filter and PostFilter are skipped for a pod on its node with a deferred in-place resize."""
    node_fields: ClassVar[NodeFields] = NodeFields.ALL
    """Parts of node objects on which cached results may depend. They outlive changes of the others.

    A result that depends on which nodes exist is dropped in any case when a node is added or removed.
    """
    pre_reads_nodes: ClassVar[bool] = True
    """True if cached results of PreFilter or PreScore may depend on node objects; if False, they outlive changes."""
    skips_read_pods: ClassVar[bool] = True
    """True if SKIP_SIGNATURE or SKIP_SIGNATURE_GROUP may depend on which pod signature groups are assigned.

    If False, they stay valid when the first pod of a template is placed; always if `reads` is below DOMAINS.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        """Store the decoded `Args` and the handle.

        Called once per profile, at startup and after a reload that changes the args.
        """
        self.args = args
        self.handle = handle

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        """Return what cached results depend on of a signature group (kube-scheduler's SignPod, KEP-5598).

        Groups with equal values from every plugin share their cached results, as thousands of templates do that differ
        in names and images only. Labels, annotations, claims and named nodes are not part of a group; see
        `reads_labels` and the other attributes. UNSIGNABLE evaluates every pod of the group without cached results. By
        default the group itself, so that it shares results with no other.
        """
        return group

    def node_fields_of(self, group: PodSignatureGroup) -> NodeFields:  # noqa: ARG002
        """Return the parts of node objects on which cached results for the group may depend; by default `node_fields`.

        It must return the same for groups that `sign_group` signs alike.
        """
        return self.node_fields

    @property
    def signing_version(self) -> int:
        """Version of what `sign_group` reads of nodes and watched objects, such as the names of images on nodes.

        After a change of a node or of an object that gives another version, groups are signed again.
        """
        return 0

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events that may make pods schedulable that this plugin rejected (KEP-4247); all by default.

        A hint is called once for all pods that share the plugin's cached results, and once for the event's own pod. It
        must read no more of a pod than these results depend on: see `Reads` and `reads_identity`.
        """
        return (ANYTHING,)


class QueueSortPlugin(Plugin):
    """Order of the active queue (kube-scheduler's QueueSort). Implement `sort_key` (preferred) or `less`."""

    def sort_key(self, queued: QueuedPod) -> Any:
        """Return a sort key; pods with lower keys are scheduled first. It must not change while the pod is queued."""
        return _ByLess(self, queued)

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Return True if `a` is scheduled before `b` (kube-scheduler's Less)."""
        return bool(self.sort_key(a) < self.sort_key(b))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.sort_key is QueueSortPlugin.sort_key and cls.less is QueueSortPlugin.less:
            raise TypeError(f"{cls.__name__} is a QueueSort plugin and must define sort_key or less")


class _ByLess:
    """Sort key that compares with the plugin's `less`."""

    __slots__ = ("_plugin", "_queued")

    def __init__(self, plugin: QueueSortPlugin, queued: QueuedPod) -> None:
        self._plugin = plugin
        self._queued = queued

    def __lt__(self, other: _ByLess) -> bool:
        return self._plugin.less(self._queued, other._queued)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByLess) and not self < other and not other < self

    __hash__ = None  # type: ignore[assignment]


class PreEnqueuePlugin(Plugin):
    """Gate before the active queue (kube-scheduler's PreEnqueue, KEP-3521)."""

    pre_enqueue_field: ClassVar[str] = ""
    """Attribute of `pod.spec`: the plugin is called only for pods that have it; for every pod if it is ""."""
    reports_gating: ClassVar[bool] = False
    """Write the rejection into the PodScheduled condition with reason SchedulingGated, which autoscalers ignore.

    kube-scheduler's plugins do not report. The message should be stable while the pod is gated: each change costs an
    API request.
    """

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """Return None to queue the pod or a Rejection to gate it, which emits no event and counts no attempt."""

    def gate_key(self, pod: Pod) -> Hashable | None:  # noqa: ARG002
        """Return a key of the condition that gates the pod.

        After an event, one pod of each key is evaluated for all of them. None, the default, evaluates every pod.
        """
        return None

    def gate_object(self, pod: Pod) -> tuple[str, str, str] | None:  # noqa: ARG002
        """Return kind, namespace and name of the object without which the pod stays gated.

        Its kind must be one in `events_to_register`, other than Pod and Node. Only events of this object and of the pod
        itself are then evaluated for the pod. Called when it has been gated, and after each evaluation. None, the
        default, evaluates all events for which the plugin is registered.
        """
        return None


class PreFilterPlugin(Plugin):
    """Computation once per pod, before any node is filtered (kube-scheduler's PreFilter).

    State that it writes to the cycle for Filter must never be modified in place: it may be shared by other pods of the
    signature, and a dry run restores the earlier values. NodeTable columns are live views, so store copies or values
    derived from them.
    """

    @abstractmethod
    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeNames | Rejection | Skip | None:
        """Return None to continue, SKIP to skip Filter, NodeNames to restrict the nodes, or a Rejection.

        If `reads` is at most ALL_NODES and there is no `filter_cache_key`, the result is cached for all pods of the
        signature. A Rejection ends Filter for all nodes; PostFilter runs next.
        """

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        """Update the state of `pod` in a dry run after `added` was added to `node` (kube-scheduler's AddPod).

        `node` includes the pod; other views of the cluster do not. Not called after SKIP. Assign a new value with
        `cycle[KEY] = value`: the end of the dry run restores the old one, which it cannot do for a value modified in
        place.
        """

    def remove_pod(self, cycle: Cycle, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        """Update the state of `pod` in a dry run after `removed` was removed from `node` (RemovePod); see `add_pod`."""


class FilterPlugin(Plugin):
    """Feasibility check of a node for a pod (kube-scheduler's Filter)."""

    reads: ClassVar[Reads] = Reads.EVERYTHING
    """Scope on which results depend; results are cached accordingly."""
    reads_identity: ClassVar[bool] = False
    """True if results depend on more of the pod than its signature (name, UID …); they are not cached."""
    reads_in_dry_run: ClassVar[Reads | None] = None
    """Scope on which results depend while only pods change, if narrower than `reads`.

    For plugins that also read other objects: OWN_NODE if they ignore pods, OWN_NODE_AND_PODS if they read the pods on
    the node. Preemption evaluates many nodes at once if no plugin depends on other nodes.
    """

    @abstractmethod
    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        """Return None if the pod fits the node, otherwise a Rejection."""

    def filter_cache_key(self, cycle: Cycle) -> Hashable | None:  # noqa: ARG002
        """Return a cache key of what the results depend on besides node objects.

        Equal keys allow reuse of cached results. For plugins that read DOMAINS, where pods come and go often but rarely
        fill a domain; and for those that read objects of other kinds besides their own node, which then declare the
        scope that `reads` would have for equal objects. With a `filter_equivalence`, it has all that results depend on
        besides that, of the pod's labels and claims too. If such a key includes what results depend on of the pod's
        claims, `reads_claims` can be False. Called after PreFilter, which is not cached. None evaluates every node
        again; so does the default, unless `reads` is at most ALL_NODES.
        """
        return None

    def filter_equivalence(self, cycle: Cycle) -> NodeEquivalence | None:  # noqa: ARG002
        """Return an equivalence of nodes with equal results in this attempt; `filter_all` runs once for each class.

        For plugins that read DOMAINS, and if results depend on a label with few values, such as the zone:
        thousands of nodes then form a few classes. Called after PreFilter. None evaluates every node, and so does a
        plugin without a `filter_all` of its own.
        """
        return None

    def required_room(self, cycle: Cycle, pod: Pod) -> Mapping[str, int] | None:  # noqa: ARG002
        """Return the requests that, with the number of pods, alone decide if the pod fits; None if more does."""
        return None

    def delegated_resources(self, requested: Iterable[str]) -> Collection[str]:  # noqa: ARG002
        """Return the requested resources that another plugin checks on nodes that do not list them (KEP-5004)."""
        return ()

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        """Return the results of `filter` for many nodes at once.

        InvalidReturnValue if `filter` returns anything but None or a Rejection.
        """
        result = NodeToStatus(len(nodes))
        numbers: dict[Rejection, int] = {}
        for i, node in enumerate(nodes):
            rejection = self.filter(cycle, pod, node)
            if rejection is not None:
                if not isinstance(rejection, Rejection):
                    raise InvalidReturnValue(self.filter, rejection, FILTER_RETURNS)
                if rejection not in numbers:
                    result.rejections.append(rejection)
                    numbers[rejection] = len(result.rejections)
                result.codes[i] = numbers[rejection]
        return result


class PostFilterPlugin(Plugin):
    """Handling of pods that fit no node, for example preemption (kube-scheduler's PostFilter)."""

    is_repeatable: ClassVar[bool] = False
    """True if a Rejection has no side effects, and depends only on nodes, pods, nominations, watched objects
    and the signature of the pod, unless that is nominated.

    The scheduler then reuses it for other pods of the signature until one of these changes.
    """

    @abstractmethod
    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | ClearNomination | Rejection:
        """Return a node to nominate with the pods to evict, or a Rejection with the reason why that does not help.

        A nomination or an unresolvable rejection ends the extension point. After another rejection the next plugin
        runs, and the messages are joined.
        """

    def post_filter_steps(
        self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis
    ) -> Generator[None, None, Nominate | ClearNomination | Rejection]:
        """Run `post_filter` in steps: a bare `yield` after every few milliseconds of work.

        The scheduler calls this method. At each `yield` it handles other events; if one arrives, it closes the
        generator and restarts the attempt. Override it if many nodes are evaluated, and exhaust it in `post_filter`.
        """
        yield from ()
        return self.post_filter(cycle, pod, diagnosis)


class PreScorePlugin(Plugin):
    """Computation once per pod, on its feasible nodes, before scoring (kube-scheduler's PreScore)."""

    pre_score_is_live: ClassVar[bool] = False
    """True if PreScore of a plugin that reads DOMAINS stores live views of `count_by_domain`, which follow the pods."""

    @abstractmethod
    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        """Return SKIP to skip the plugin's Score, otherwise None.

        If `reads` is at most ALL_NODES, the result is cached for all pods of the signature until a node object changes,
        so it must not depend on which nodes are feasible. With DOMAINS or EVERYTHING it may: it is not cached then, or
        with `pre_score_is_live` until nodes, their feasibility, watched objects or the views themselves change.
        """


class ScorePlugin(Plugin):
    """Ranking of feasible nodes by raw scores that `normalize` converts to 0..100 (kube-scheduler's Score)."""

    reads: ClassVar[Reads] = Reads.EVERYTHING
    """Scope on which raw scores depend; they are cached accordingly."""
    score_reads: ClassVar[Reads | None] = None
    """Scope on which raw scores depend, if wider than the `reads` of the plugin's Filter."""
    reads_identity: ClassVar[bool] = False
    """True if scores depend on more of the pod than its signature (name, UID …); they are not cached."""
    has_score_key: bool = False
    """True if `score_cache_key` counts for a plugin that reads its own node only, and the pods on it.

    For scores that depend on watched objects too. Their rows are then cached, and all are stale with another key.
    """
    weight: ClassVar[int] = 1
    """Weight if the configuration gives none."""
    normalizer: ClassVar[Normalizer | None] = None
    """Conversion of raw scores to 0..100; None if they are in that range."""

    @abstractmethod
    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        """Return the raw score of one node as an int."""

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        """Return the results of `score` for many nodes at once. InvalidReturnValue if a score is no integer."""
        return checked_scores(self.score, [self.score(cycle, pod, node) for node in nodes])

    def score_cache_key(self, cycle: Cycle) -> Hashable | None:  # noqa: ARG002
        """Return a cache key of what the raw scores depend on besides the scored node itself.

        Equal keys allow reuse of the cached scores of unchanged nodes. For plugins that read ALL_NODES, where nodes
        change often but rarely what is read of them, and for those with a `score_equivalence`: all that the scores
        depend on besides that, of the pod's labels and claims too. Called after PreScore. None, the default, scores
        every node again after any change of a node, and every class in each attempt.
        """
        return None

    def score_equivalence(self, cycle: Cycle) -> NodeEquivalence | None:  # noqa: ARG002
        """Return an equivalence of nodes with equal raw scores in this attempt; `score_all` runs once for each class.

        For plugins that read DOMAINS and have a `normalizer` with a `span` that does not depend on how often a score
        occurs. Called after PreScore. None, the default, scores every node, and so does a plugin without a `score_all`
        of its own.
        """
        return None

    def normalize(self, cycle: Cycle, pod: Pod, scores: Scores) -> Scores:  # noqa: ARG002
        """Return the final scores (0..100) for the raw scores of all feasible nodes. Usually `normalizer` suffices."""
        if self.normalizer is None or not len(scores):
            return scores
        return self.normalizer.rescale(scores, self.normalizer.span(scores))


class ReservePlugin(Plugin):
    """Bookkeeping of a plugin about assumed pods (kube-scheduler's Reserve)."""

    @abstractmethod
    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        """Record that the pod is assumed on the node. A Rejection calls `unreserve` of all Reserve plugins."""

    @abstractmethod
    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        """Undo `reserve`. Must be idempotent, must not fail, and may be called without a prior `reserve`."""


class PermitPlugin(Plugin):
    """Approval, denial or delay of a pod before binding (kube-scheduler's Permit).

    For a waiting pod `permit` is called again after each event in `events_to_register`, whenever `Wait.recheck_every`
    seconds have passed, and once at the timeout. None then approves the pod, a Rejection requeues it, and Wait
    continues the wait until the deadline of the first Wait. `cycle` holds the plugin's state of the attempt with the
    current `cycle.now`; `pod` and `node` are current.
    """

    @abstractmethod
    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | Rejection | None:
        """Return None to approve, a Rejection to deny, or Wait to delay binding while the pod stays assumed."""

    def handle_unschedulable(
        self,
        cycle: Cycle,  # noqa: ARG002
        pod: Pod,  # noqa: ARG002
        diagnosis: Diagnosis,  # noqa: ARG002
        nominated: Nominate | None,  # noqa: ARG002
    ) -> Rejection | None:
        """Approve the evictions of a preemption, or handle that the pod is unschedulable.

        Called when no node fits and PostFilter has run, even if that ended with an error. `nominated` is PostFilter's
        result with the pods to evict; if PostFilter left an earlier nomination unchanged, that node without pods;
        otherwise None.

        A Rejection prevents the evictions. The nomination stays in memory, where pods of equal or lower priority see
        it, until another attempt of the pod is permitted or fails, or `handle.nominator.clear` is called. The message
        of the Rejection is added to the pod's condition.
        """
        return None

    def affected_pods(self, event: ClusterEvent, waiting: Sequence[WaitingPod]) -> Iterable[WaitingPod]:
        """Return the waiting pods for which `permit` must be called again after an event in `events_to_register`.

        `waiting` are all pods that wait for this plugin, oldest first. By default, those are returned for which a
        queueing hint does not return SKIP. Override it if a lookup finds the few affected pods, or if one call of
        `permit` decides for many.
        """
        hints = [interest.hint for interest in self.events_to_register() if interest.covers(event)]
        return [
            w for w in waiting if any(hint is None or hint(w.pod, event) is not QueueingHint.SKIP for hint in hints)
        ]


class PreBindPlugin(Plugin):
    """Work that must be done before a pod is bound, such as provisioning a volume (kube-scheduler's PreBind)."""

    def pre_bind_pre_flight(self, cycle: Cycle, pod: Pod, node_name: str) -> Skip | None:  # noqa: ARG002
        """Return SKIP if `pre_bind` has nothing to do for this pod.

        If all plugins return SKIP, the pod is bound without PreBind. kube-scheduler's PreBindPreFlight (KEP-5278);
        called in the scheduling cycle after Permit.
        """
        return None

    @abstractmethod
    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        """Prepare the binding. A Rejection or an exception unreserves and requeues the pod."""


class BindPlugin(Plugin):
    """Binding of a pod to its node (kube-scheduler's Bind). Plugins run in order until one does not return SKIP."""

    binds_without_api: ClassVar[bool] = False
    """True for a plugin that binds pods without `api`, through another service.

    For other plugins, None without a call of `api.bind` is an invalid return value: the pod would stay assumed forever.
    """

    @abstractmethod
    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | Skip | None:
        """Return None if the pod is bound, SKIP to let the next plugin bind it, or a Rejection."""


class PostBindPlugin(Plugin):
    """Notification that a pod has been bound (kube-scheduler's PostBind)."""

    @abstractmethod
    async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        """React to the binding, which can no longer be undone."""
