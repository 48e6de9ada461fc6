"""UIDs of pods by name."""

from __future__ import annotations

from pyscheduler.core.pod_names import PodNames
from pyscheduler.core.state import PodSignatures
from pyscheduler.testing import pod

SIGNATURES = PodSignatures()
WEB = pod("web").namespace("a").uid("1").build(SIGNATURES)
NEXT = pod("web").namespace("a").uid("2").build(SIGNATURES)


def test_pod_is_found_by_namespace_and_name() -> None:
    names = PodNames()
    names.put(WEB)
    assert names.uid("a", "web") == names.uid_by_key("a/web") == "1"
    assert names.uid("b", "web") is names.uid("a", "db") is names.uid_by_key("web") is None


def test_removed_pod_is_not_found() -> None:
    names = PodNames()
    names.put(WEB)
    names.remove(WEB)
    assert names.uid("a", "web") is None
    assert [*names.uids()] == []


def test_removal_of_a_namesake_keeps_the_newer_pod() -> None:
    names = PodNames()
    names.put(WEB)
    names.put(NEXT)
    names.remove(WEB)
    assert names.uid("a", "web") == "2"
