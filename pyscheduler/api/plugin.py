"""The extension points of the scheduling framework, one small base class each.

A plugin is a class that inherits the points it serves; the class line says where it plugs in. `def` methods decide and
run inside the scheduling cycle, `async def` methods act and run in the binding cycle. The points, their order and their
meaning are those of kube-scheduler 1.36 (KEP-624).

The plain per-node form (`filter`, `score`) is the specification. The NumPy form (`filter_all`, `score_all`) is an
optimisation that must give the same answers; left out, the base class loops over the plain form.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.events import ANYTHING, ClusterEvent, ClusterEventWithHint, QueueingHint, ResourceKind
from pyscheduler.api.handle import ApiWriter, Handle, WaitingPod
from pyscheduler.api.nodes import NodeInfo, NodeTable
from pyscheduler.api.normalize import Normalizer, Scores
from pyscheduler.api.outcome import ClearNomination, NodeNames, NodeToStatus, Nominate, Rejection, Skip, Wait
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.return_values import FILTER_RETURNS, InvalidReturnValue, check_score
from pyscheduler.api.topology import NodeEquivalence


class Reads(enum.IntEnum):
    """What a plugin's Filter and Score answers for a node depend on, from least to most.

    The scheduler keeps the answers and recomputes only what may have changed. Claiming too little gives stale answers
    (the plugin conformance suite looks for that); claiming too much only costs time.
    """

    OWN_NODE = 1
    """The node object itself (labels, taints, images, allocatable), not the pods on it."""
    OWN_NODE_AND_PODS = 2
    """The node and the pods on it."""
    ALL_NODES = 3
    """Node objects all over the cluster, but no pods."""
    DOMAINS = 4
    """Pods on other nodes, counted by topology domain."""
    EVERYTHING = 5
    """Anything: computed afresh for every pod."""


@dataclass(frozen=True, slots=True)
class NoArgs:
    """The Args of a plugin that takes none."""


class Plugin(ABC):
    """What all plugins share."""

    name: ClassVar[str]
    """The name that configurations use."""
    Args: ClassVar[type] = NoArgs
    """A frozen dataclass; `pluginConfig[].args` is decoded into it and checked when the scheduler starts.

    A `__post_init__` that raises ValueError refuses the args with its message.
    """
    watches: ClassVar[tuple[ResourceKind, ...]] = ()
    """Kinds beyond the scheduler's own that the plugin reads through `handle.objects`."""
    indexes: ClassVar[tuple[str, ...]] = ()
    """Pod label keys that the plugin looks pods up by, through `handle.pods_by_label`."""
    counts_succeeded: ClassVar[bool] = False
    """Keep pods of phase Succeeded in `handle.pods_by_label` and `handle.pods_by_pod_group` until they are deleted.

    Of those with the labels that the plugin `indexes`, or of all pod groups where it indexes none. Other pods that have
    ended are forgotten at once.
    """
    reads_labels: ClassVar[bool] = True
    """Whether what it says of a pod may depend on the pod's labels or annotations.

    Where it does not, what it said holds for the pods of a StatefulSet or an indexed Job too, of which each has labels
    of its own.
    """

    reads_claims: ClassVar[bool] = True
    """Whether it may depend on which PersistentVolumeClaims the pod names: those of a StatefulSet have their own."""
    reads_match_fields: ClassVar[bool] = True
    """Whether it may depend on which nodes its required node affinity names (`matchFields`): those of a DaemonSet have
    their own."""

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The events that may turn this plugin's "no" into a "yes"; anything, unless the plugin knows better."""
        return (ANYTHING,)


class QueueSortPlugin(Plugin):
    """Orders the active queue. Give either `sort_key` (preferred) or `less`."""

    def sort_key(self, queued: QueuedPod) -> Any:
        """A key that is smaller the sooner the pod is to be tried; it may change only when the pod is put back."""
        return _ByLess(self, queued)

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Whether `a` is to be tried before `b`."""
        return bool(self.sort_key(a) < self.sort_key(b))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.sort_key is QueueSortPlugin.sort_key and cls.less is QueueSortPlugin.less:
            raise TypeError(f"{cls.__name__} is a QueueSort plugin and must define sort_key or less")


class _ByLess:
    """A sort key that asks the plugin's `less`."""

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
    """Holds a pod out of the active queue until its time has come."""

    reports_gating: ClassVar[bool] = False
    """Write the reason into the PodScheduled condition, as SchedulingGated: no autoscaler takes that for demand.

    Kube-scheduler's plugins are silent. The message should stay the same while the pod is gated: each new one is a
    write to the API server.
    """

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """None lets the pod in; a Rejection keeps it among the unschedulable pods, uncounted and without an event."""

    def gate_key(self, pod: Pod) -> Hashable | None:  # noqa: ARG002
        """Key of the thing that a gated pod waits for: after an event, one pod of each key is evaluated for all.

        None, which is always right, has every pod evaluated.
        """
        return None


class PreFilterPlugin(Plugin):
    """Looks at the pod once, before any node.

    What it leaves in the cycle for Filter is a value: nobody changes it in place, because it may serve other pods of
    the signature, and because a trial puts the earlier values back when it is over. It is the plugin's own, too: columns
    of a NodeTable follow the live cluster, so what is kept of them is computed from them or copied.
    """

    @abstractmethod
    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeNames | Rejection | Skip | None:
        """None goes on, SKIP leaves my Filter out, NodeNames narrows the nodes, a Rejection ends the attempt.

        Where the plugin `reads` no more than ALL_NODES, the answer is kept for all pods of the signature.
        """

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        """`added` has been put on `node` in a trial: write a new value to `pod`'s cycle that counts it in.

        `node` shows it there already, other views of the cluster do not. Never called after SKIP. The end of the trial
        undoes every `cycle[KEY] = value`, so a value that was changed in place would stay wrong (see the class).
        """

    def remove_pod(self, cycle: Cycle, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        """`removed` has been taken off `node` in a trial: write a new value that counts it out, as in `add_pod`."""


class FilterPlugin(Plugin):
    """Says whether a pod can run on a node."""

    reads: ClassVar[Reads] = Reads.EVERYTHING
    reads_identity: ClassVar[bool] = False
    """Whether answers depend on more of the pod than its signature (name, UID …): such answers are never kept."""
    reads_in_dry_run: ClassVar[Reads | None] = None
    """What answers depend on while only pods come and go, where that is less than `reads`.

    For plugins that read other objects, too: OWN_NODE if pods do not matter to them, OWN_NODE_AND_PODS if those on the node do.
    Preemption tries many nodes at once if no plugin looks beyond a node.
    """

    @abstractmethod
    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        """None if the pod fits the node."""

    def filter_cache_key(self, cycle: Cycle) -> Hashable | None:  # noqa: ARG002
        """What the answers rest on beside node objects, as PreFilter found it: the same again, the same answers again.

        For plugins that read DOMAINS: pods come and go all the time, and hardly ever does a domain become full by it.
        None, which is always right, has every node asked again.
        """
        return None

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        """The same answers for many nodes at once."""
        verdicts = NodeToStatus(len(nodes))
        known: dict[Rejection, int] = {}
        for i, node in enumerate(nodes):
            rejection = self.filter(cycle, pod, node)
            if rejection is not None:
                if not isinstance(rejection, Rejection):
                    raise InvalidReturnValue(self.filter, rejection, FILTER_RETURNS)
                if rejection not in known:
                    verdicts.rejections.append(rejection)
                    known[rejection] = len(verdicts.rejections)
                verdicts.codes[i] = known[rejection]
        return verdicts


class PostFilterPlugin(Plugin):
    """Tries to make room when no node fits."""

    @abstractmethod
    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | ClearNomination | Rejection:
        """Nominate a node that will fit once the named pods are evicted, or say why that cannot help.

        A nomination or an unresolvable rejection is the last word; after any other rejection the next plugin is asked,
        and what all of them said is told.
        """

    def post_filter_steps(
        self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis
    ) -> Generator[None, None, Nominate | ClearNomination | Rejection]:
        """The answer of `post_filter`, with a bare `yield` after every few milliseconds of work.

        This is what the scheduler calls; it handles other events at each `yield`, and closes the generator if one of
        them comes: the attempt is begun anew. Override it, and let `post_filter` exhaust it, where many nodes are
        tried.
        """
        yield from ()
        return self.post_filter(cycle, pod, diagnosis)


class PreScorePlugin(Plugin):
    """Looks at the pod and the feasible nodes once, before scoring."""

    @abstractmethod
    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        """SKIP leaves this plugin's Score out. Kept for the signature where the plugin `reads` no more than ALL_NODES."""


class ScorePlugin(Plugin):
    """Says how good a feasible node is, in any range that `normalize` brings to 0..100."""

    reads: ClassVar[Reads] = Reads.EVERYTHING
    reads_identity: ClassVar[bool] = False
    weight: ClassVar[int] = 1
    """The weight where a configuration gives none."""
    normalizer: ClassVar[Normalizer | None] = None
    """How raw scores become 0..100; None if they already are."""

    @abstractmethod
    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        """The raw score of one node."""

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        """The same answers for many nodes at once."""
        scores = [self.score(cycle, pod, node) for node in nodes]
        if not {*map(type, scores)} <= {int}:
            for score in scores:
                check_score(self.score, score)
        return np.array(scores, np.int64)

    def score_equivalence(self, cycle: Cycle) -> NodeEquivalence | None:  # noqa: ARG002
        """Which nodes have the same raw score in this attempt, as PreScore found it: those that are alike by this.

        For plugins that read DOMAINS and have a `normalizer`, to whose `span` it is all one how often a score occurs:
        of nodes that are alike one is asked, and speaks for all. None, which is always right, has every node asked.
        """
        return None

    def normalize(self, cycle: Cycle, pod: Pod, scores: Scores) -> Scores:  # noqa: ARG002
        """NormalizeScore: the raw scores of all feasible nodes in, their final scores out. Most set `normalizer`."""
        if self.normalizer is None or not len(scores):
            return scores
        return self.normalizer.rescale(scores, self.normalizer.span(scores))


class ReservePlugin(Plugin):
    """Keeps books of its own about where pods go."""

    @abstractmethod
    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        """The pod takes its place on the node; a Rejection undoes all reservations."""

    @abstractmethod
    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        """The pod gives its place back. Must be safe to call without a reservation, and never fail."""


class PermitPlugin(Plugin):
    """The last word before binding.

    A pod that waits is not forgotten: `permit` is run again for it after each event that `events_to_register` cover, each time
    that `Wait.recheck_every` seconds have passed, and once when its time is up. None then lets the pod go, a Rejection
    sends it back to the queue, Wait keeps it for the rest of the time that the first Wait gave it. `cycle` holds what
    the plugin wrote in the attempt, with `cycle.now` brought up to date; `pod` and `node` are as they are now.
    """

    @abstractmethod
    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | Rejection | None:
        """None approves, a Rejection denies, Wait parks the pod with its place held."""

    def handle_unschedulable(
        self,
        cycle: Cycle,  # noqa: ARG002
        pod: Pod,  # noqa: ARG002
        diagnosis: Diagnosis,  # noqa: ARG002
        nominated: Nominate | None,  # noqa: ARG002
    ) -> Rejection | None:
        """Permit the evictions of a preemption, or learn that the pod found no place.

        Called when no node fits and PostFilter has run, also where one of its plugins ended it with an error.
        `nominated` is the node that PostFilter found, with the pods to be evicted, or without any the node that an
        earlier attempt found, where PostFilter leaves that as it is; None if there is none.

        A Rejection keeps those pods. The room stays reserved in memory, where other pods of the same or a lower
        priority see it, until another attempt of the pod is permitted or fails, or `handle.clear_nominations` takes it
        back. The message of the Rejection is added to the pod's condition.
        """
        return None

    def affected_pods(self, event: ClusterEvent, waiting: Sequence[WaitingPod]) -> Iterable[WaitingPod]:
        """Return the pods for which `permit` must be run again after an event that `events_to_register` cover.

        `waiting` are all pods that this plugin makes wait, oldest first. The base class returns those for which the
        hint of an interest does not answer SKIP. Override it where a look-up finds the few that matter, or where one
        run of `permit` decides for many.
        """
        hints = [interest.hint for interest in self.events_to_register() if interest.covers(event)]
        return [
            w for w in waiting if any(hint is None or hint(w.pod, event) is not QueueingHint.SKIP for hint in hints)
        ]


class PreBindPlugin(Plugin):
    """Does what must be done before the pod is bound, such as provisioning a volume."""

    def pre_bind_pre_flight(self, cycle: Cycle, pod: Pod, node_name: str) -> Skip | None:  # noqa: ARG002
        """SKIP if `pre_bind` has nothing to do for this pod, which is then bound like one without PreBind plugins.

        Kube-scheduler's PreBindPreFlight; asked in the scheduling cycle, after Permit.
        """
        return None

    @abstractmethod
    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        """A Rejection or an exception gives the place back and puts the pod back."""


class BindPlugin(Plugin):
    """Binds the pod; the first that does not SKIP has done it."""

    binds_without_api: ClassVar[bool] = False
    """True for a plugin that has the pod bound without `api`, by a service of its own.

    From any other, None without a call of `api.bind` is a wrong answer: the pod would hold a place that it never takes.
    """

    @abstractmethod
    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | Skip | None:
        """None: bound. SKIP: the next plugin's turn."""


class PostBindPlugin(Plugin):
    """Is told that a pod has been bound."""

    @abstractmethod
    async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        """Informational: nothing can be undone any more."""
