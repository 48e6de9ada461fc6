"""A pending pod of megabytes is kept compressed, and decoded again for an attempt."""

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


def decode_others(shapes: PodSignatures) -> list[Pod]:
    return [large(f"other-{i}").build(shapes) for i in range(CACHE_SIZE)]


def test_a_pending_pod_lets_go_of_its_shape_when_others_have_been_decoded() -> None:
    shapes = PodSignatures()
    first = large("first", app="web").build(shapes)
    signature = ref(first.signature)
    assert first.is_large
    others = decode_others(shapes)
    assert signature() is None
    assert others


def test_the_shape_is_the_same_after_decoding_it_again() -> None:
    shapes = PodSignatures()
    first = large("first", app="web").build(shapes)
    before = (
        first.signature.id,
        dict(first.labels),
        first.spec,
        first.requests.real,
        first.signature.required_node_terms,
    )
    others = decode_others(shapes)
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
    shapes = PodSignatures()
    first = large("first").build(shapes)
    others = decode_others(shapes)
    kept = ref(others[0].signature)
    assert (first.priority, first.scheduler_name, first.namespace) == (7, "default-scheduler", "default")
    assert kept() is not None


@pytest.mark.parametrize("node_name", ["", "n1"])
def test_siblings_share_a_shape(node_name: str) -> None:
    shapes = PodSignatures()
    first, second = large("a").build(shapes), large("a").uid("b").on(node_name).build(shapes)
    assert first.signature is second.signature
    others = decode_others(shapes)
    assert first.signature is second.signature
    assert others


def test_a_pod_on_a_node_stays_decoded() -> None:
    shapes = PodSignatures()
    bound = large("a").on("n1").build(shapes)
    signature = ref(bound.signature)
    others = decode_others(shapes)
    assert signature() is bound.signature
    assert others


def test_nothing_is_left_of_pods_that_are_gone() -> None:
    shapes = PodSignatures()
    pods = [large("a").build(shapes), large("b").on("n1").build(shapes), *decode_others(shapes)]
    decoded = [ref(each.signature) for each in pods]
    del pods
    gc.collect()
    assert [signature() for signature in decoded if signature() is not None] == []
    assert len(shapes) == 0


def test_a_pod_of_ordinary_size_is_not_compressed() -> None:
    shapes = PodSignatures()
    small = pod("a").label("app", "x" * 60).build(shapes)
    signature = ref(small.signature)
    others = decode_others(shapes)
    assert signature() is small.signature
    assert not small.is_large
    assert small.signature.size < LARGE
    assert others
