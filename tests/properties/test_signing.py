"""Groups that a plugin signs alike share its cached results, which are right for each of them (Plugin.sign_group).

With a single plugin in the profile, all pods that it signs alike share one cache, whatever else their specs say.
"""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given

from pyscheduler.api import FilterPlugin, ScorePlugin
from tests.properties.evaluation_model import EvaluationWorld
from tests.properties.probe_plugins import IN_TREE, Class
from tests.properties.profiles import assert_caught, quick
from tests.properties.sample_objects import POD_KINDS
from tests.properties.state_steps import ALL_STEPS
from tests.properties.test_incremental import Story, stories

SIGNERS = [cls for cls in IN_TREE if issubclass(cls, FilterPlugin | ScorePlugin)]
READS_NO_GROUP = {"NodeName", "NodeUnschedulable"}
"""Plugins with results that depend on nothing in which the sample pods of different groups differ."""
MANY_PODS = stories(*ALL_STEPS, "object", "attempt", "attempt")


def check(cls: Class, story: Story) -> None:
    """Compare attempts of pods of all kinds with uncached ones, with one plugin."""
    fleet, rounds = story
    world = EvaluationWorld((cls,), range(POD_KINDS))
    for step in (*fleet, *chain.from_iterable(rounds)):
        world.do(step)


@pytest.mark.parametrize("cls", SIGNERS, ids=lambda cls: cls.name)
def test_groups_signed_alike_have_equal_results(cls: Class) -> None:
    quick(40)(given(MANY_PODS)(lambda story: check(cls, story)))()


@pytest.mark.parametrize("cls", [cls for cls in SIGNERS if cls.name not in READS_NO_GROUP], ids=lambda cls: cls.name)
def test_property_catches_what_is_not_signed(cls: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cls, "sign_group", lambda *_: ())
    assert_caught(lambda story: check(cls, story), MANY_PODS, AssertionError, examples=1000)
