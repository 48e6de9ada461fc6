"""Usage of claims: settling a holder costs the same however many others hold its claims, and none is left over."""

from __future__ import annotations

import sys
from types import FrameType

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroupKey
from pyscheduler.core.pod_groups.claim_usage import PLACED, RESERVED, ClaimUsage, Holder, Scope
from pyscheduler.testing import pod

SCOPE: Scope = ("q", ())


def user_of_claim(name: str) -> Pod:
    return pod(name).uid(name).spec(resourceClaims=[{"name": "c", "resourceClaimName": "c"}]).build()


def settle(usage: ClaimUsage) -> None:
    usage.settle(lambda _: SCOPE)


def calls_for_another_holder(count: int) -> int:
    """Return the number of function calls that settle one more holder of a claim, besides this many others."""
    usage = ClaimUsage(lambda _: {"c": {"gpu": 1}})
    for i in range(count):
        usage.add(Holder(PodGroupKey("ns", str(i)), RESERVED), user_of_claim(f"p{i}"))
    settle(usage)
    usage.add(Holder(PodGroupKey("ns", "last"), RESERVED), user_of_claim("last"))
    calls = 0

    def count_call(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count_call)
    try:
        settle(usage)
    finally:
        sys.setprofile(None)
    return calls


def test_another_holder_of_a_claim_costs_the_same_whatever_the_number_of_holders() -> None:
    assert calls_for_another_holder(1000) == calls_for_another_holder(10)


def test_claim_that_was_held_in_a_dry_run_only_is_read_anew_afterwards() -> None:
    amounts, holder, user = {"gpu": 8}, Holder(PodGroupKey("ns", "a"), PLACED), user_of_claim("p")
    usage = ClaimUsage(lambda _: {"c": dict(amounts)})
    with usage.dry_run():
        usage.add(holder, user)
        settle(usage)
        usage.remove(holder, user.uid)
        settle(usage)
    assert not usage
    amounts["gpu"] = 1
    usage.add(holder, user)
    settle(usage)
    assert usage.amounts(holder) == {"gpu": 1}
