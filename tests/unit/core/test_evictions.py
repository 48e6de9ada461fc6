"""Evictions that were requested and have not taken effect yet."""

from __future__ import annotations

from pyscheduler.core.framework.evictions import Evictions


def test_preemptor_waits_for_all_victims() -> None:
    evictions = Evictions()
    for victim in ("a", "b", "b"):
        evictions.begin(victim, "high")
    assert evictions.end("a") == []
    assert evictions.is_pending_for("high")
    assert evictions.end("b") == ["high"]
    assert evictions.end("b") == []
    assert not evictions.is_pending_for("high")


def test_victim_is_shared_by_two_preemptors() -> None:
    evictions = Evictions()
    evictions.begin("a", "one")
    evictions.begin("a", "other")
    evictions.begin("b", "other")
    assert evictions.end("a") == ["one"]
    assert (evictions.is_pending_for("one"), evictions.is_pending_for("other")) == (False, True)
    evictions.end("unknown")
