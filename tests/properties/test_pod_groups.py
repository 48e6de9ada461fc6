"""Invariants of pod groups: none is partly bound, nothing that fits stays pending, no eviction is in vain."""

from __future__ import annotations

from hypothesis import given

from tests.properties.pod_group_model import RECONFIGURED, STEPS, PodGroupModel, Step, config
from tests.properties.profiles import quick


def run(script: list[Step], result_cache: str = "On") -> PodGroupModel:
    """Run the steps and a minute without further ones."""
    model = PodGroupModel(config(result_cache=result_cache))
    for step in script:
        model.do(step)
    model.calm_down()
    return model


def check_bound(script: list[Step]) -> None:
    """Check that groups are bound as a whole, and that nothing that fits is pending."""
    missed = run(script).missed()
    assert not missed, f"{missed} would fit"


@quick(60)
@given(STEPS)
def test_groups_are_bound_as_a_whole_as_soon_as_they_fit(script: list[Step]) -> None:
    check_bound(script)


@quick(30)
@given(RECONFIGURED)
def test_groups_are_bound_whatever_is_reconfigured(script: list[Step]) -> None:
    check_bound([*script, ("enable", 0, 0)])
