"""Invariants of trees of pod groups: no part of a tree starts that is of no use, and a tree that fits starts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pytest
from hypothesis import given

from pyscheduler.api import PodGroupKey
from pyscheduler.core.pod_groups import subgroup_placement, subgroups
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.pod_groups.subgroup_placement import SubgroupPlacementSearch
from tests.properties.pod_group_trees import TREES, Tree, check_restarts, check_tree
from tests.properties.profiles import assert_caught, quick


@quick(80)
@given(TREES)
def test_trees_start_as_soon_as_enough_of_their_groups_fit(tree: Tree) -> None:
    check_tree(tree)


@quick(20)
@given(TREES)
def test_trees_start_whenever_the_scheduler_is_restarted(tree: Tree) -> None:
    check_restarts(tree)


Plant = Callable[[pytest.MonkeyPatch], None]


def _place_fewer_groups(patch: pytest.MonkeyPatch) -> None:
    ways = SubgroupPlacementSearch._options
    patch.setattr(subgroups, "complete_subgroups", lambda group, counts: group.min_subgroups)
    patch.setattr(SubgroupPlacementSearch, "_options", lambda *args: chain(ways(*args), [True]))


def _ignore_topologies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(subgroup_placement, "candidate_domains", lambda *args: iter([args[-1]]))


def _try_few(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(subgroup_placement, "_TRIES", -10)


def _never_change_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PodGroupManager, "_regroup", lambda self, group: None)


def _put_all_pods_into_the_root(patch: pytest.MonkeyPatch) -> None:
    def key_of(self: subgroups.SubgroupKeys, _: object) -> PodGroupKey:
        return self._group.key

    patch.setattr(subgroups.SubgroupKeys, "key_of", key_of)


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (_place_fewer_groups, "have a node|are bound"),
        (_ignore_topologies, "is in"),
        (_try_few, "would fit"),
        (_never_change_groups, "would fit"),
        (_put_all_pods_into_the_root, "have a node|are bound|would fit"),
    ],
)
def test_property_catches_planted_bug(plant: Plant, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(check_tree, TREES, AssertionError, match=message)
