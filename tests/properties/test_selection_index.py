"""The candidates of a pod include each member of the index that selects it, whatever was added and discarded before."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import PodRequirement, PodSelection, PodSignature, SelectionIndex, Selector, required_labels
from pyscheduler.api.selection_index import ByValue
from pyscheduler.core.state import PodSignatures
from pyscheduler.testing import pod
from tests.properties.profiles import assert_caught, quick
from tests.properties.test_pod_counters import SELECTORS

PODS = [
    pod().namespace(namespace).label("app", app).label("tier", tier)
    for namespace, app, tier in product(("red", "blue"), "123", "12")
]


class Pods(NamedTuple):
    """Pods that a selector matches in some namespaces, or in any."""

    selector: Selector
    namespaces: frozenset[str] | None

    def include(self, signature: PodSignature) -> bool:
        in_namespace = self.namespaces is None or signature.namespace in self.namespaces
        return in_namespace and self.selector.matches(signature.labels)


Member = tuple[Pods, ...]
"""It selects the pods of each alternative."""
MEMBERS = st.lists(st.builds(Pods, SELECTORS, st.sampled_from([None, frozenset({"red"})])), max_size=2).map(tuple)


def check(data: st.DataObject) -> None:
    signatures, index = PodSignatures(), SelectionIndex[Member]()
    seen = [each.build(signatures).signature for each in PODS]
    members = data.draw(st.lists(MEMBERS, min_size=3, max_size=8, unique=True))
    added: set[Member] = set()
    for member, is_added in data.draw(
        st.lists(st.tuples(st.sampled_from(members), st.booleans()), min_size=4, max_size=16)
    ):
        if is_added:
            index.add(member, _selection(member))
            added.add(member)
        else:
            index.discard(member)
            added.discard(member)
        assert {*index} == added
        for signature in seen:
            candidates = index.candidates(signature)
            selecting = {each for each in added if any(pods.include(signature) for pods in each)}
            assert selecting <= candidates.keys() <= added
    for member in added:
        index.discard(member)
    assert not index.attributes
    assert not index.unindexed


def _selection(member: Member) -> PodSelection:
    return [required_labels(*pods) for pods in member]


@quick(200)
@given(st.data())
def test_candidates_include_all_members_that_select_the_pod(data: st.DataObject) -> None:
    check(data)


def test_member_left_in_a_bucket_fails_the_property(monkeypatch: pytest.MonkeyPatch) -> None:
    def discard_first(self: ByValue[Member], member: Member, values: set[str]) -> None:
        discard(self, member, [*values][:1])

    discard = ByValue.discard
    monkeypatch.setattr(ByValue, "discard", discard_first)
    assert_caught(check, st.data())


def test_property_catches_discard_that_removes_other_members(monkeypatch: pytest.MonkeyPatch) -> None:
    def discard_all(self: ByValue[Member], member: Member, values: set[str]) -> None:
        for value in values:
            self.pop(value, None)

    monkeypatch.setattr(ByValue, "discard", discard_all)
    assert_caught(check, st.data())


def test_property_catches_ignored_alternatives_without_requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    def add_others(self: SelectionIndex[Member], member: Member, selection: PodSelection) -> object:
        return add(self, member, [required for required in selection if required])

    add = SelectionIndex.add
    monkeypatch.setattr(SelectionIndex, "add", add_others)
    assert_caught(check, st.data())


def test_index_by_one_value_of_a_requirement_fails_the_property(monkeypatch: pytest.MonkeyPatch) -> None:
    def add_first(self: SelectionIndex[Member], member: Member, selection: PodSelection) -> object:
        return add(self, member, [[_first(each) for each in required] for required in selection])

    add = SelectionIndex.add
    monkeypatch.setattr(SelectionIndex, "add", add_first)
    assert_caught(check, st.data())


def _first(requirement: PodRequirement) -> PodRequirement:
    return requirement._replace(values=[*requirement.values][:1])
