"""Claims count once for each queue and its users, whatever pods come, go and move; incremental equals computed anew."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.api.resources import Amounts
from pyscheduler.core.pod_groups import claim_usage
from pyscheduler.core.pod_groups.claim_usage import PLACED, RESERVED, TERMINATING, ClaimUsage, Holder, Scope, sum_of
from pyscheduler.testing import pod
from tests.properties.profiles import assert_caught, quick

EXAMPLES = 150
NAMES = ("a", "b", "c")
SCOPES: tuple[Scope, ...] = (("q", ()), ("q", ("user alice",)), ("other", ()))
PODS = [
    pod(f"p{i}").uid(f"p{i}").spec(resourceClaims=[{"name": n, "resourceClaimName": n} for n in names]).build()
    for i, names in enumerate([("a",), ("a", "b"), ("b", "c"), ("c",), ("a", "b", "c"), ("a",)])
]

USERS = {
    name: pod(name).uid(name).spec(resourceClaims=[{"name": name, "resourceClaimName": name}]).build() for name in NAMES
}


class Step(NamedTuple):
    """What happens: a pod comes or goes, a group moves to another scope, or a claim is created anew.

    Or a group may reserve nothing any more, its reservation is no longer confirmed, or a dry run begins; the next time
    it may again, or the dry run ends.
    """

    action: str
    pod: int
    group: int
    rank: int
    scope: int
    amount: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["add", "add", "add", "remove", "move", "claim", "settle", "refuse", "doubt", "dry run"]),
        st.integers(0, len(PODS) - 1),
        st.integers(0, 2),
        st.sampled_from([PLACED, RESERVED, TERMINATING]),
        st.integers(0, len(SCOPES)),
        st.integers(0, 4),
    ),
    max_size=40,
)


class Model:
    """The usage under test beside plain sets of what holds what."""

    def __init__(self) -> None:
        self.amounts: dict[str, int] = dict.fromkeys(NAMES, 1)
        self.kept: dict[str, int] = {}
        """Amounts of the claims that pods hold: the largest ones since the first of the pods came."""
        self.scopes: dict[int, Scope | None] = dict.fromkeys(range(3), SCOPES[0])
        self.refused: set[int] = set()
        """Groups for which nothing is reserved."""
        self.unconfirmed: set[int] = set()
        """Groups whose reservations have not been compared with the quota."""
        self.holding: dict[tuple[int, int, int], Pod] = {}
        self.dry_run: AbstractContextManager[None] | None = None
        self.usage = ClaimUsage(self.claims_of)

    def claims_of(self, each: Pod) -> dict[str, Amounts]:
        names = [entry.resource_claim_name or "" for entry in each.spec.resource_claims or ()]
        return {name: {"gpu": self.amounts[name]} for name in names}

    def apply(self, step: Step) -> None:
        key = (step.group, step.rank, step.pod)
        if step.action == "add" and key not in self.holding:
            for name, amounts in self.claims_of(PODS[step.pod]).items():
                self.kept.setdefault(name, amounts["gpu"])
            self.holding[key] = PODS[step.pod]
            self.usage.add(holder(step.group, step.rank), PODS[step.pod])
        elif step.action == "remove" and key in self.holding:
            self.usage.remove(holder(step.group, step.rank), self.holding.pop(key).uid)
            self.drop_unheld()
        elif step.action == "move":
            self.scopes[step.group] = (*SCOPES, None)[step.scope]
            self.usage.touch(holder(step.group, step.rank).key)
        elif step.action == "claim":
            name = NAMES[step.pod % len(NAMES)]
            self.amounts[name] = step.amount
            if name in self.kept:
                self.kept[name] = max(self.kept[name], step.amount)
            self.usage.set_claim(name, {"gpu": step.amount})
        elif step.action == "refuse":
            self.refused ^= {step.group}
            self.usage.touch(holder(step.group, RESERVED).key)
        elif step.action == "doubt":
            self.unconfirmed ^= {step.group}
        elif step.action == "dry run" and self.dry_run is None:
            self.dry_run = self.usage.dry_run()
            self.dry_run.__enter__()
        elif step.action == "dry run":
            self.end_dry_run()
        elif step.action == "settle":
            self.check()

    def end_dry_run(self) -> None:
        if self.dry_run is not None:
            self.dry_run.__exit__(None, None, None)
            self.dry_run = None
            self.drop_unheld()

    def drop_unheld(self) -> None:
        if self.dry_run is not None:
            return  # its pods may be added again
        held = {name for each in self.holding.values() for name in self.claims_of(each)}
        gone = self.kept.keys() - held
        if gone:
            self.usage.settle(self.scope_of)  # as before any report; a claim that is held anew is read anew
        for name in gone:
            del self.kept[name]

    def scope_of(self, each: Holder) -> Scope | None:
        group = int(each.key.name)
        return None if each.rank == RESERVED and group in self.refused else self.scopes[group]

    def check(self) -> None:
        self.usage.settle(self.scope_of)
        for scope in SCOPES:
            held: dict[str, int] = {}
            for (group, rank, _), each in self.holding.items():
                if self.scope_of(holder(group, rank)) == scope:
                    held.update({name: self.kept[name] for name in self.claims_of(each)})
            groups = [group for group in range(3) if self.scopes[group] == scope]
            counted = sum_of(self.usage.amounts(holder(g, rank)) for g in groups for rank in range(3))
            assert counted.get("gpu", 0) == sum(held.values())
            self.check_requested(scope)

    def check_requested(self, scope: Scope) -> None:
        """Check that a new group requests what counts toward no confirmed holder, for each claim alone."""
        new, doubted = PodGroup(PodGroupKey("ns", "new"), 1, queue=scope[0], accounts=scope[1]), set[PodGroupKey]()
        doubted.update(holder(group, RESERVED).key for group in self.unconfirmed)
        for name in NAMES:
            ranks = {(g, r) for (g, r, _), each in self.holding.items() if name in self.claims_of(each)}
            holders = {each for each in (holder(*of) for of in ranks) if self.scope_of(each) == scope}
            confirmed = {each for each in holders if each.rank != RESERVED or each.key not in doubted}
            requested = [*self.usage.requested(new, [USERS[name]], doubted)]
            if not confirmed:
                assert requested == [{"gpu": self.amounts[name]}]
            elif confirmed == holders or any(each.rank != RESERVED for each in holders):
                assert not requested


def holder(group: int, rank: int) -> Holder:
    return Holder(PodGroupKey("ns", str(group)), rank)


def check_steps(steps: list[Step]) -> None:
    model = Model()
    for step in steps:
        model.apply(step)
    model.check()
    for group, rank, number in list(model.holding):
        model.apply(Step("remove", number, group, rank, 0, 0))
    model.check()
    model.end_dry_run()
    assert not model.usage, "nothing is kept for claims without pods"


@given(STEPS)
@example([Step("add", 0, 0, 0, 0, 0), Step("remove", 0, 0, 0, 0, 0)])  # gone before it was settled
@quick(EXAMPLES)
def test_claims_count_once_in_each_scope(steps: list[Step]) -> None:
    check_steps(steps)


def _count_each_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count a claim for the last holder too, without taking it from the first one."""
    move = ClaimUsage._move

    def planted(self: ClaimUsage, amounts: Amounts, old: Holder | None, new: Holder | None, touched: Any) -> None:
        move(self, amounts, None if new is not None else old, new, touched)

    monkeypatch.setattr(ClaimUsage, "_move", planted)


def _forget_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the claims of a group in the scope where they were."""
    monkeypatch.setattr(ClaimUsage, "touch", lambda self, key: None)


def _forget_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the amounts that a claim had when its first pod came."""
    monkeypatch.setattr(ClaimUsage, "set_claim", lambda self, name, amounts: [])


def _ignore_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a claim for counted that another queue holds."""
    monkeypatch.setattr(claim_usage, "scope_of", lambda group: SCOPES[0])


def _confirm_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a claim for counted that counts toward an unconfirmed reservation."""
    requested = ClaimUsage.requested

    def planted(self: ClaimUsage, group: PodGroup, pods: Any, unconfirmed: Any) -> Any:
        return requested(self, group, pods)

    monkeypatch.setattr(ClaimUsage, "requested", planted)


def _keep_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep claims that a dry run has left without pods."""

    def planted(self: ClaimUsage, name: str) -> None:
        claim = self._claims.get(name)
        if claim is not None and not claim.pods and not claim.holders and not self._is_dry_run:
            del self._claims[name]

    monkeypatch.setattr(ClaimUsage, "_drop_unused", planted)


PLANTED = [_count_each_holder, _forget_moves, _forget_growth, _ignore_scopes, _confirm_all, _keep_unused]


@pytest.mark.parametrize("plant", PLANTED)
def test_planted_bug_is_caught(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(check_steps, STEPS)
