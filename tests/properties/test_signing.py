"""Groups that a plugin signs alike share its cached results, which are right for each of them (Plugin.sign_group).

With a single plugin in the profile, all pods that it signs alike share one cache, whatever else is in their specs. With
all plugins, nearly every group has a cache of its own, which starts with results of another.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given

from pyscheduler.api import FilterPlugin, ScorePlugin
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache
from pyscheduler.core.result_cache.row_filters import RowFilters
from pyscheduler.core.result_cache.row_results import RowResults
from pyscheduler.core.result_cache.row_scores import RowScores
from tests.properties.evaluation_model import EvaluationWorld
from tests.properties.probe_plugins import IN_TREE, Class
from tests.properties.profiles import assert_caught, quick
from tests.properties.sample_objects import POD_KINDS
from tests.properties.state_steps import ALL_STEPS
from tests.properties.test_incremental import Story, stories

SIGNERS = [cls for cls in IN_TREE if issubclass(cls, FilterPlugin | ScorePlugin)]
READS_NO_GROUP = {"NodeName", "NodeUnschedulable", "DeferredPodScheduling"}
"""Plugins with results that depend on nothing in which the sample pods of different groups differ."""
MANY_PODS = stories(*ALL_STEPS, "object", "attempt", "attempt")


def check(story: Story, *classes: Class) -> None:
    """Compare attempts of pods of all kinds with uncached ones, with these plugins."""
    fleet, rounds = story
    world = EvaluationWorld(classes, range(POD_KINDS))
    for step in (*fleet, *chain.from_iterable(rounds)):
        world.do(step)


@pytest.mark.parametrize("cls", SIGNERS, ids=lambda cls: cls.name)
def test_groups_signed_alike_have_equal_results(cls: Class) -> None:
    quick(40)(given(MANY_PODS)(lambda story: check(story, cls)))()


@pytest.mark.parametrize("cls", [cls for cls in SIGNERS if cls.name not in READS_NO_GROUP], ids=lambda cls: cls.name)
def test_property_catches_what_is_not_signed(cls: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cls, "sign_group", lambda *_: ())
    assert_caught(lambda story: check(story, cls), MANY_PODS, AssertionError, examples=1000)


def test_new_caches_start_with_results_that_hold_for_their_groups() -> None:
    quick(60)(given(MANY_PODS)(lambda story: check(story, *IN_TREE)))()


@pytest.mark.parametrize("part", [RowResults, PluginResultCache], ids=lambda part: part.__name__)
def test_property_catches_copied_results_of_other_signed_values(
    part: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = part.copy_without
    monkeypatch.setattr(part, "copy_without", lambda self, _: copy(self, frozenset()))
    assert_caught(lambda story: check(story, *IN_TREE), MANY_PODS, AssertionError)


@pytest.mark.parametrize("part", [RowFilters, RowScores], ids=lambda part: part.__name__)
def test_property_catches_copies_that_change_together(part: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "copy", lambda self: self)
    assert_caught(lambda story: check(story, *IN_TREE), MANY_PODS, AssertionError, IndexError)
