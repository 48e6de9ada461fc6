"""Evictions that were requested and are not confirmed yet."""

from __future__ import annotations

from pyscheduler.core.framework.evictions import Evictions


def test_a_preemptor_waits_for_all_of_its_victims() -> None:
    evictions = Evictions()
    for victim in ("a", "b", "b"):
        evictions.begin(victim, "high")
    assert evictions.end("a") == []
    assert evictions.is_preempting("high")
    assert evictions.end("b") == ["high"]
    assert evictions.end("b") == []
    assert not evictions.is_preempting("high")


def test_two_preemptors_may_wait_for_one_victim() -> None:
    evictions = Evictions()
    evictions.begin("a", "one")
    evictions.begin("a", "other")
    evictions.begin("b", "other")
    assert evictions.end("a") == ["one"]
    assert (evictions.is_preempting("one"), evictions.is_preempting("other")) == (False, True)
    evictions.end("unknown")
