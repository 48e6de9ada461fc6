"""Cases are determined by their seed, contain their stated features, and together cover all of them."""

from __future__ import annotations

import json

import pytest

from tests.conformance.generator import GROUPS, PROFILES, draw
from tests.conformance.generator.generated_cluster import key_of

CASES = [draw(seed) for seed in range(200)]


def test_same_seed_gives_same_case() -> None:
    assert draw(7) == draw(7)
    assert draw(7).document != draw(8).document


def test_case_is_json_with_unique_uids_and_timestamps() -> None:
    """UIDs and timestamps differ, as in a cluster; JSON restores an equal document."""
    for document in (case.document for case in CASES):
        assert json.loads(json.dumps(document)) == document
        metas = [o["metadata"] for o in document["objects"]]
        for field in ("uid", "creationTimestamp"):
            assert len({meta[field] for meta in metas}) == len(metas)
        names = {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in document["objects"]}
        assert len(names) == len(metas)


def test_all_pending_pods_are_listed() -> None:
    for document in (case.document for case in CASES):
        pods = [o for o in document["objects"] if o["kind"] == "Pod"]
        pending = [key_of(pod) for pod in pods if "nodeName" not in pod["spec"]]
        assert pending
        assert document["pods"][: len(pending)] == pending
        assert {key_of(pod) for pod in pods}.issuperset(document["pods"])


@pytest.mark.parametrize("feature", GROUPS)
def test_requested_feature_is_in_the_case(feature: str) -> None:
    drawn = [draw(seed, feature=feature) for seed in range(20)]
    assert sum(feature in case.features for case in drawn) == len(drawn)


@pytest.mark.parametrize("profile", PROFILES)
def test_requested_profile_is_in_the_case(profile: str) -> None:
    case = draw(3, profile=profile)
    assert f"profile:{profile}" in case.features
    assert case.document["config"]["profiles"]


def test_cluster_sizes_vary_within_bounds() -> None:
    sizes = [sum(o["kind"] == "Node" for o in case.document["objects"]) for case in CASES]
    assert set(range(9)) < set(sizes) <= set(range(41))
