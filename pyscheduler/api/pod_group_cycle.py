"""Extension points in the scheduling cycle of a pod group, as in kube-scheduler 1.37 (KEP-4671, KEP-5732, KEP-6076)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct

from pyscheduler.api.argument_checks import check_argument, check_items
from pyscheduler.api.nodes import Ints, NodeInfo, NodeTable
from pyscheduler.api.outcome import Rejection
from pyscheduler.api.plugin import Plugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup


class Placement(Struct, frozen=True, eq=False):
    """Nodes for the pods of a group; it has its minimums."""

    group: PodGroup
    members: Sequence[tuple[Pod, NodeInfo]]
    """Pods with the node that each has already, or would get. They are counted on it."""
    remaining: Sequence[Pod]
    """Pods that would get no node."""


class PlacementCandidate(Struct, frozen=True, eq=False):
    """Nodes among which all pods of a group may be placed."""

    name: str
    """Name for messages, such as the value of a node label."""
    nodes: Ints
    """Indexes of the nodes in the table of `generate_placements`."""


class PlacementGeneratePlugin(Plugin):
    """Choice of the sets of nodes that are tried for a group. The first plugin of a profile runs."""

    @abstractmethod
    def generate_placements(
        self, group: PodGroup, scheduled: Sequence[tuple[Pod, NodeInfo]], nodes: NodeTable
    ) -> Sequence[PlacementCandidate] | Rejection | None:
        """Return the candidates, or why there are none; None leaves the choice to the scheduler.

        `scheduled` are the pods of the group with their nodes, `nodes` are all nodes of the cluster.
        """


class PlacementScorePlugin(Plugin):
    """Score of a whole placement. It runs if a group fits more than one candidate of a PlacementGenerate plugin."""

    @abstractmethod
    def score_placement(self, placement: Placement, nodes: NodeTable) -> int:
        """Return the score of a placement, 0 to 100 unless it is normalized. `nodes` are those of the candidate."""

    def normalize_placement_scores(self, group: PodGroup, scores: Sequence[int]) -> Sequence[int]:  # noqa: ARG002
        """Return the scores of all candidates that fit, 0 to 100, in the same order."""
        return scores


class PlacementFeasiblePlugin(Plugin):
    """Check of a whole placement, which no Filter plugin can make: it sees one pod at a time."""

    @abstractmethod
    def placement_feasible(self, placement: Placement) -> Rejection | None:
        """Return None if the group may be placed so, or why not; then other domains and other nodes are tried.

        Also called in the dry runs of preemption.
        """


class NominateGroup(Struct, frozen=True):
    """Nomination of the pods of a group: they fit these nodes once other pods are evicted."""

    nodes: Mapping[str, str]
    """Names of nodes by UID of the pod, which is pending."""
    evict: Sequence[Pod] = ()
    """Pods to evict, on any nodes."""

    def __post_init__(self) -> None:
        check_argument("NominateGroup", "nodes", self.nodes, Mapping, "a mapping of UIDs to names of nodes")
        check_items("NominateGroup", "nodes", [*self.nodes, *self.nodes.values()], str, "a mapping of str to str")
        check_items("NominateGroup", "evict", self.evict, Pod, "a sequence of Pods")


class PodGroupPostFilterPlugin(Plugin):
    """Attempt to make a group schedulable that does not fit. The plugins run in order, before preemption."""

    makes_room: ClassVar[bool] = True
    """False if the plugin makes no room on nodes; then groups without enough are not retried for it."""

    @abstractmethod
    def pod_group_post_filter(self, group: PodGroup, pods: Sequence[Pod], message: str) -> NominateGroup | Rejection:
        """Return the nodes that the pods get later, or why the plugin does not help.

        `pods` are all pending ones, `message` is why they do not fit. After a Rejection the next plugin runs, and
        preemption at last; after one that is not resolvable, nothing.
        """
