"""Random changes to a cluster state as short tuples; `StateModel` applies them and records the expected content."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

from pyscheduler.api.pod import Pod
from pyscheduler.core.state import ClusterState, PodSignatures
from tests.properties.sample_objects import NAMES, NODE_KINDS, POD_KINDS, node_of, pod_of
from tests.properties.state_snapshot import COUNTS, REQUIREMENTS, UIDS, Resources

Step = tuple[str, int, int, int]
"""Kind of change, number of the pod, kind of the object, number of the node."""

Drawn = TypeVar("Drawn")

# A few names and UIDs, so that the same objects change repeatedly.
_POD = st.integers(0, 7)
_WHERE = st.integers(0, 4)
_KIND = st.integers(0, max(NODE_KINDS, POD_KINDS) - 1)


def scripts(step: st.SearchStrategy[Drawn], longest: int) -> st.SearchStrategy[list[Drawn]]:
    """Generate lists of steps, most of them long: by default Hypothesis draws five on average."""
    return st.lists(step, min_size=longest // 2, max_size=longest) | st.lists(step, max_size=longest)


def steps(*what: str, longest: int = 30) -> st.SearchStrategy[list[Step]]:
    """Generate lists of steps of these kinds; repeat a kind to get it more often."""
    return scripts(a_step(*what), longest)


def a_step(*what: str) -> st.SearchStrategy[Step]:
    """Generate one step of these kinds."""
    return st.tuples(st.sampled_from(what), _POD, _KIND, _WHERE)


POD_STEPS = ("place", "place", "remove", "replace", "mark")
ALL_STEPS = (*POD_STEPS, "node", "node", "drop", "look")


class StateModel:
    """A cluster state, and the nodes and pods that it should contain."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.shapes = PodSignatures()
        self.nodes: dict[str, int] = {}
        self.pods: dict[str, tuple[int, str, bool]] = {}

    def do(self, step: Step) -> None:
        what, number, kind, where = step
        getattr(self, f"_{what}")(number, kind, where)

    def rebuilt(self) -> ClusterState:
        """Build a new state with the same content: nodes first, in row order, then pods."""
        fresh = ClusterState()
        names = [node.name for node in self.state.rows]
        assert sorted(names) == sorted(self.nodes)
        for name in names:
            fresh.set_node(node_of(name, self.nodes[name]))
        for uid, (kind, where, deleting) in self.pods.items():
            fresh.place(self.pod(uid, kind, where, deleting), where)
        return fresh

    def pod(self, uid: str, kind: int, where: str, deleting: bool) -> Pod:
        """Return a pod of the cluster."""
        return pod_of(self.shapes, uid, kind, where, deleting)

    def _node(self, _: int, kind: int, where: int) -> None:
        name = NAMES[where]
        self.nodes[name] = kind
        self.state.set_node(node_of(name, kind))

    def _drop(self, _number: int, _kind: int, where: int) -> None:
        existing = self.nodes.pop(NAMES[where], None)
        assert (self.state.remove_node(NAMES[where]) is None) == (existing is None)

    def _place(self, number: int, kind: int, where: int) -> None:
        self._put(UIDS[number], kind, NAMES[where], False)

    def _put(self, uid: str, kind: int, where: str, deleting: bool) -> None:
        self.pods[uid] = (kind, where, deleting)
        self.state.place(self.pod(uid, kind, where, deleting), where)

    def _remove(self, number: int, _kind: int, _where: int) -> None:
        existing = self.pods.pop(UIDS[number], None)
        assert (self.state.remove(UIDS[number]) is None) == (existing is None)

    def _replace(self, number: int, kind: int, _: int) -> None:
        """Update the pod to another signature with other requests."""
        uid = UIDS[number]
        if uid in self.pods:
            _, where, deleting = self.pods[uid]
            self.pods[uid] = (kind, where, deleting)
            self.state.replace(self.pod(uid, kind, where, deleting))

    def _mark(self, number: int, _kind: int, _where: int) -> None:
        """Update the pod's deletion timestamp only."""
        uid = UIDS[number]
        if uid in self.pods:
            kind, where, _ = self.pods[uid]
            self.pods[uid] = (kind, where, True)
            self.state.replace(self.pod(uid, kind, where, True))

    def _look(self, number: int, _kind: int, _where: int) -> None:
        """Read columns, which builds them, so that later changes must maintain them."""
        self.state.table().matches_requirement(REQUIREMENTS[number % len(REQUIREMENTS)])
        self.state.table().requested("ephemeral-storage")
        self.state.table().count_pods(COUNTS[number % len(COUNTS)])
        self.state.table().attribute_counts(Resources())
