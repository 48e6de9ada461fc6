"""What may happen to a cluster state, as short tuples; `StateWorld` does them and remembers what must come of it."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

from pyscheduler.core.state import ClusterState, PodSignatures
from tests.properties.sample_objects import NAMES, NODE_KINDS, POD_KINDS, node_of, pod_of
from tests.properties.state_snapshot import COUNTS, REQUIREMENTS, UIDS, Resources

Step = tuple[str, int, int, int]
"""What to do, to which pod, of which kind, on which node."""

Drawn = TypeVar("Drawn")

# A few names and UIDs, so that things happen to the same ones again and again.
_WHO = st.integers(0, 7)
_WHERE = st.integers(0, 4)
_KIND = st.integers(0, max(NODE_KINDS, POD_KINDS) - 1)


def scripts(step: st.SearchStrategy[Drawn], longest: int) -> st.SearchStrategy[list[Drawn]]:
    """Lists of steps, most of them long: left to itself, Hypothesis draws five on average."""
    return st.lists(step, min_size=longest // 2, max_size=longest) | st.lists(step, max_size=longest)


def steps(*what: str, longest: int = 30) -> st.SearchStrategy[list[Step]]:
    """Lists of steps of these kinds; repeat one to have it more often."""
    return scripts(a_step(*what), longest)


def a_step(*what: str) -> st.SearchStrategy[Step]:
    """One step of these kinds."""
    return st.tuples(st.sampled_from(what), _WHO, _KIND, _WHERE)


POD_STEPS = ("place", "place", "remove", "replace", "mark")
ALL_STEPS = (*POD_STEPS, "node", "node", "drop", "look")


class StateWorld:
    """A state that steps are done to, and the nodes and pods that should be in it."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.shapes = PodSignatures()
        self.nodes: dict[str, int] = {}
        self.pods: dict[str, tuple[int, str, bool]] = {}

    def do(self, step: Step) -> None:
        what, who, kind, where = step
        getattr(self, f"_{what}")(who, kind, where)

    def rebuilt(self) -> ClusterState:
        """A state built afresh: nodes first, in the order of the rows, pods after."""
        fresh = ClusterState()
        names = [node.name for node in self.state.rows]
        assert sorted(names) == sorted(self.nodes)
        for name in names:
            fresh.set_node(node_of(name, self.nodes[name]))
        for uid, (kind, where, deleting) in self.pods.items():
            fresh.place(pod_of(self.shapes, uid, kind, where, deleting), where)
        return fresh

    def _node(self, _: int, kind: int, where: int) -> None:
        name = NAMES[where]
        self.nodes[name] = kind
        self.state.set_node(node_of(name, kind))

    def _drop(self, _who: int, _kind: int, where: int) -> None:
        known = self.nodes.pop(NAMES[where], None)
        assert (self.state.remove_node(NAMES[where]) is None) == (known is None)

    def _place(self, who: int, kind: int, where: int) -> None:
        self._put(UIDS[who], kind, NAMES[where], False)

    def _put(self, uid: str, kind: int, where: str, deleting: bool) -> None:
        self.pods[uid] = (kind, where, deleting)
        self.state.place(pod_of(self.shapes, uid, kind, where, deleting), where)

    def _remove(self, who: int, _kind: int, _where: int) -> None:
        known = self.pods.pop(UIDS[who], None)
        assert (self.state.remove(UIDS[who]) is None) == (known is None)

    def _replace(self, who: int, kind: int, _: int) -> None:
        """A new version of the pod: another signature, which may ask for less or more."""
        uid = UIDS[who]
        if uid in self.pods:
            _, where, deleting = self.pods[uid]
            self.pods[uid] = (kind, where, deleting)
            self.state.replace(pod_of(self.shapes, uid, kind, where, deleting))

    def _mark(self, who: int, _kind: int, _where: int) -> None:
        """A new version of the pod that differs in its deletion only."""
        uid = UIDS[who]
        if uid in self.pods:
            kind, where, _ = self.pods[uid]
            self.pods[uid] = (kind, where, True)
            self.state.replace(pod_of(self.shapes, uid, kind, where, True))

    def _look(self, who: int, _kind: int, _where: int) -> None:
        """Reading builds columns, which must be kept up from then on."""
        self.state.table().matches_requirement(REQUIREMENTS[who % len(REQUIREMENTS)])
        self.state.table().requested("ephemeral-storage")
        self.state.table().count_pods(COUNTS[who % len(COUNTS)])
        self.state.table().attribute_counts(Resources())
