"""Domains of nodes, and flags of domains as a cache key."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler.api import DomainFlags, Domains, topology

KNOWN: dict[str | None, int] = {None: 0, "a": 1, "b": 2, "c": 3}


def domains(*ids: int) -> Domains:
    return Domains(np.array(ids, np.intp), KNOWN)


def flags(of: Domains, *set_domains: int) -> DomainFlags:
    values = np.zeros(of.size, np.bool_)
    values[list(set_domains)] = True
    return DomainFlags([(of, values)])


@pytest.fixture(autouse=True)
def any_number_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "_MANY", 0)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [([2], [1, 4]), ([1, 2], [0, 3, 1, 4]), ([2, 0], [1, 4, 2]), ([3], []), ([3, 1], [0, 3]), ([], [])],
)
def test_nodes_of_domains_are_listed_domain_by_domain(chosen: list[int], expected: list[int]) -> None:
    assert domains(1, 2, 0, 1, 2).nodes_in(np.array(chosen, np.intp)).tolist() == expected


def test_domains_of_some_nodes_have_the_same_ids() -> None:
    assert domains(1, 2, 1, 3).of_nodes(np.array([3, 0])).ids.tolist() == [3, 1]
    assert domains(1, 2, 1, 3).of_nodes(np.array([3, 0])).unlabelled.tolist() == []
    assert domains(1, 0, 1, 3).of_nodes(np.array([2, 1])).unlabelled.tolist() == [1]


def test_changed_nodes_are_those_of_domains_with_other_flags() -> None:
    zones = domains(1, 2, 0, 1, 2)
    before = flags(zones, 1)
    for now, expected in ((flags(zones, 1), []), (flags(zones, 1, 2), [1, 4]), (flags(zones, 2), [0, 3, 1, 4])):
        changed = now.changed_nodes(before)
        assert changed is not None
        assert changed.tolist() == expected
        assert (now == before) is not bool(expected)


def test_all_nodes_may_have_changed_with_other_topologies_or_keys() -> None:
    zones = domains(1, 2)
    before = flags(zones)
    assert flags(domains(1, 2)).changed_nodes(before) is None
    assert DomainFlags([], "other").changed_nodes(before) is None
    assert flags(zones) == before
    assert flags(domains(1, 2)) != before
    assert before != "flags"


def test_large_domain_counts_as_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    zones = domains(*[1] * 10, *[2] * 90)
    monkeypatch.setattr(topology, "_MANY", 4)
    assert flags(zones, 2).changed_nodes(flags(zones)) is None
    changed = flags(zones, 1).changed_nodes(flags(zones))
    assert changed is not None
    assert len(changed) == 10
