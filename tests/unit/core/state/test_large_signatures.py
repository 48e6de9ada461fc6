"""Large pending pods have compressed signatures, which are decoded for an attempt."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from pyscheduler.api.pod import LARGE, Pod
from pyscheduler.core.state import PodSignatures
from pyscheduler.core.state.large_signatures import CACHE_SIZE
from pyscheduler.testing import PodBuilder, pod


def large(name: str, **labels: str) -> PodBuilder:
    terms = [
        {"matchExpressions": [{"key": f"{name}-{i}", "operator": "In", "values": ["x", "y"]}]} for i in range(3_000)
    ]
    built = pod(name).requests(cpu="1").priority(7).node_affinity(*terms)
    for key, value in labels.items():
        built = built.label(key, value)
    return built


def decode_others(signatures: PodSignatures) -> list[Pod]:
    return [large(f"other-{i}").build(signatures) for i in range(CACHE_SIZE)]


def test_decoded_signature_is_freed_after_others_were_decoded() -> None:
    signatures = PodSignatures()
    first = large("first", app="web").build(signatures)
    signature = ref(first.signature)
    assert first.is_large
    others = decode_others(signatures)
    assert signature() is None
    assert others


def test_signature_is_equal_after_it_was_decoded_again() -> None:
    signatures = PodSignatures()
    first = large("first", app="web").build(signatures)
    before = (
        first.signature.id,
        dict(first.labels),
        first.spec,
        first.requests.real,
        first.signature.required_node_terms,
    )
    others = decode_others(signatures)
    assert (
        first.signature.id,
        first.labels,
        first.spec,
        first.requests.real,
        first.signature.required_node_terms,
    ) == before
    assert first.signature is first.signature
    assert others


def test_priority_and_scheduler_name_need_no_decoding() -> None:
    signatures = PodSignatures()
    first = large("first").build(signatures)
    others = decode_others(signatures)
    cached = ref(others[0].signature)
    assert (first.priority, first.scheduler_name, first.namespace) == (7, "default-scheduler", "default")
    assert cached() is not None


@pytest.mark.parametrize("node_name", ["", "n1"])
def test_pods_of_one_template_share_a_signature(node_name: str) -> None:
    signatures = PodSignatures()
    first, second = large("a").build(signatures), large("a").uid("b").on(node_name).build(signatures)
    assert first.signature is second.signature
    others = decode_others(signatures)
    assert first.signature is second.signature
    assert others


def test_signature_of_a_pod_on_a_node_stays_decoded() -> None:
    signatures = PodSignatures()
    bound = large("a").on("n1").build(signatures)
    signature = ref(bound.signature)
    others = decode_others(signatures)
    assert signature() is bound.signature
    assert others


def test_signatures_are_freed_with_their_pods() -> None:
    signatures = PodSignatures()
    pods = [large("a").build(signatures), large("b").on("n1").build(signatures), *decode_others(signatures)]
    decoded = [ref(each.signature) for each in pods]
    del pods
    gc.collect()
    assert [signature() for signature in decoded if signature() is not None] == []
    assert len(signatures) == 0


def test_signature_of_a_pod_of_ordinary_size_is_not_compressed() -> None:
    signatures = PodSignatures()
    small = pod("a").label("app", "x" * 60).build(signatures)
    signature = ref(small.signature)
    others = decode_others(signatures)
    assert signature() is small.signature
    assert not small.is_large
    assert small.signature.size < LARGE
    assert others
