"""Small clusters with a tree of pod groups. What has to happen is found by trying everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product
from typing import NamedTuple

from hypothesis import strategies as st

from tests.properties.pod_group_model import CALM, Uncontrolled, all_fit, config
from tests.scenarios.batch.manifests import NATIVE_ALPHA, RACK, Gang, composite, gang, node, pod

Free = tuple[tuple[int, ...], ...]
"""Cpus that are free on the nodes of each rack."""


class Leaf(NamedTuple):
    """PodGroup of the tree."""

    sizes: tuple[int, ...]
    """Cpus of the pods."""
    surplus: bool
    """True if the minimum of the group is one less than its size."""
    in_rack: bool
    """True if its pods have to be in one rack."""
    is_nested: bool
    """True if its parent is a CompositePodGroup below the root."""

    @property
    def minimum(self) -> int:
        return max(1, len(self.sizes) - self.surplus)

    def fits(self, free: Free) -> bool:
        """Return True if its minimum fits into what is free."""
        racks: Sequence[Sequence[int]] = free if self.in_rack else [[room for rack in free for room in rack]]
        return any(all_fit(pods, rack) for rack in racks for pods in combinations(self.sizes, self.minimum))

    def create(self, name: str) -> Gang:
        pods = [pod(f"{name}{i}", size) for i, size in enumerate(self.sizes)]
        topology = {"topology": RACK} if self.in_rack else {}
        return gang(name, self.minimum, pods, NATIVE_ALPHA, parent="nested" if self.is_nested else "root", **topology)


class Tree(NamedTuple):
    """A cluster, and the tree that arrives in it."""

    racks: Free
    taken: tuple[tuple[int, ...], ...]
    """Cpus of pods that run before, on the nodes of each rack."""
    leaves: tuple[Leaf, ...]
    needed: int
    """Number of the children that the root needs."""
    nested_needed: int
    order: int
    """Order in which the objects are created."""


_LEAVES = st.builds(
    Leaf,
    st.lists(st.sampled_from((1, 1, 2)), min_size=1, max_size=3).map(tuple),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
_RACKS = st.lists(st.lists(st.integers(1, 2), min_size=1, max_size=2).map(tuple), min_size=1, max_size=3).map(tuple)
TREES = st.builds(
    Tree,
    _RACKS,
    st.lists(st.lists(st.integers(0, 1), min_size=2, max_size=2).map(tuple), min_size=3, max_size=3).map(tuple),
    st.lists(_LEAVES, min_size=1, max_size=3).map(tuple),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 5),
)


class TreeRun:
    """Run of a tree: what runs before ends one after the other."""

    def __init__(self, tree: Tree, restart: bool = False) -> None:
        self.tree = tree
        self.names = "abc"[: len(tree.leaves)]
        nodes = [
            node(f"r{i}-{j}", cpu, {RACK: f"r{i}"}) for i, rack in enumerate(tree.racks) for j, cpu in enumerate(rack)
        ]
        self.cluster = Uncontrolled(*nodes, config=config())
        self.taken: list[str] = []
        for i, rack in enumerate(tree.racks):
            for j, cpu in enumerate(rack):
                if used := min(cpu, tree.taken[i][j]):
                    taken = pod(f"taken{i}{j}", used)
                    taken["spec"]["nodeName"] = f"r{i}-{j}"
                    self.cluster.apply(taken)
                    self.taken.append(f"taken{i}{j}")
        self.create()
        self.check()
        for name in self.taken:
            if restart:
                self.cluster.restart()
            self.cluster.delete("Pod", name)
            self.cluster.run()
            self.cluster.advance(CALM)
            self.check()

    def create(self) -> None:
        leaves = [each.create(name) for name, each in zip(self.names, self.tree.leaves, strict=True)]
        composites = [composite("root", self.tree.needed)]
        if any(each.is_nested for each in self.tree.leaves):
            composites.append(composite("nested", self.tree.nested_needed, "root"))
        parts = (
            composites,
            [obj for leaf in leaves for obj in leaf.objects],
            [p for leaf in leaves for p in leaf.pods],
        )
        for leaf in leaves:
            self.cluster.declare(leaf)
        for objects in [*permutations(parts)][self.tree.order]:
            for each in objects:
                self.cluster.apply(each)
            self.cluster.run()
        self.cluster.advance(CALM)

    # -- what is expected --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that the tree has started if it fits, and no part of it by itself."""
        bound = {name: self.cluster.assignments.get(name, "") for name in self._pods()}
        started = {name for name in self.names if any(bound[pod_name] for pod_name in self._pods_of(name))}
        if started:
            assert self._is_enough(started), f"only {started} have a node, of {self.tree}"
            for name in started:
                self._check_leaf(name, [bound[each] for each in self._pods_of(name) if bound[each]])
        else:
            assert not any(self._fits(some) for some in self._enough()), f"{self.tree} would fit"

    def _check_leaf(self, name: str, nodes: Sequence[str]) -> None:
        leaf = self.tree.leaves[self.names.index(name)]
        assert len(nodes) >= leaf.minimum, f"{len(nodes)} of {leaf.minimum} pods of {name} have a node"
        racks = {each.partition("-")[0] for each in nodes}
        assert len(racks) == 1 or not leaf.in_rack, f"{name} is in {racks}"

    def _is_enough(self, leaves: set[str]) -> bool:
        """Return True if the root has its minimum with these leaves, and the composite below it if it has any."""
        nested = [name for name in self.names if self.tree.leaves[self.names.index(name)].is_nested]
        started = len(leaves.intersection(nested))
        if 0 < started < self.tree.nested_needed:
            return False
        return len(leaves.difference(nested)) + bool(started) >= self.tree.needed

    def _enough(self) -> Iterator[tuple[str, ...]]:
        for count in range(1, len(self.names) + 1):
            yield from (some for some in combinations(self.names, count) if self._is_enough(set(some)))

    def _fits(self, leaves: Sequence[str]) -> bool:
        """Return True if the minimums of these leaves fit together."""
        groups = [self.tree.leaves[self.names.index(name)] for name in leaves]
        choices = [[*combinations(group.sizes, group.minimum)] for group in groups]
        return any(_all_fit([*zip(groups, pods, strict=True)], self._free()) for pods in product(*choices))

    def _free(self) -> Free:
        left = {name for name in self.taken if f"default/{name}" in self.cluster.pods}
        return tuple(
            tuple(
                cpu - (min(cpu, self.tree.taken[i][j]) if f"taken{i}{j}" in left else 0) for j, cpu in enumerate(rack)
            )
            for i, rack in enumerate(self.tree.racks)
        )

    def _pods_of(self, name: str) -> list[str]:
        return [f"{name}{i}" for i in range(len(self.tree.leaves[self.names.index(name)].sizes))]

    def _pods(self) -> list[str]:
        return [each for name in self.names for each in self._pods_of(name)]


def _all_fit(groups: Sequence[tuple[Leaf, tuple[int, ...]]], free: Free, rack: int | None = None) -> bool:
    """Return True if these pods of each group fit together, by trying every placement. `rack` is that of the first."""
    if not groups:
        return True
    (leaf, sizes), *others = groups
    if not sizes:
        return _all_fit(others, free)
    racks = range(len(free)) if rack is None else [rack]
    for i, j in ((k, n) for k in racks for n in range(len(free[k])) if free[k][n] >= sizes[0]):
        after = tuple(
            tuple(room - sizes[0] if (k, n) == (i, j) else room for n, room in enumerate(each))
            for k, each in enumerate(free)
        )
        if _all_fit([(leaf, sizes[1:]), *others], after, i if leaf.in_rack else None):
            return True
    return False


def outcome_of(tree: Tree) -> dict[str, str]:
    """Return the node of each pod of a tree that was bound."""
    return dict(TreeRun(tree).cluster.bindings)


def check_tree(tree: Tree) -> None:
    """Check a tree."""
    TreeRun(tree)


def check_restarts(tree: Tree) -> None:
    """Check a tree while the scheduler is restarted before each end of a pod."""
    TreeRun(tree, restart=True)
