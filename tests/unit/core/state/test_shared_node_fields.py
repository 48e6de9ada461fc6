"""Interning of the fields of node objects."""

from __future__ import annotations

from pyscheduler.api.objects import ContainerImage, NodeObject
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.shared_node_fields import SharedNodeFields
from pyscheduler.testing import node

NODE = node("n").image("web:1", 100).image("db:2", 200)


def interned(shared: SharedNodeFields, source: NodeObject) -> tuple[ContainerImage, ...]:
    return shared.intern_fields(source)[0].status.images or ()


def test_equal_images_are_interned() -> None:
    shared = SharedNodeFields()
    one, other = interned(shared, NODE.build()), interned(shared, node("m").image("db:2", 200).build())
    assert one[1] is other[0]
    assert shared.images == 2


def test_equal_fields_are_interned() -> None:
    shared = SharedNodeFields()
    built = NODE.label("pool", "long name of a pool").has("example.com/gpu", "1000Ki")
    (one, images), (other, same) = (shared.intern_fields(built.build()) for _ in range(2))
    assert images is same
    assert one.status.images is other.status.images
    assert one.status.conditions is other.status.conditions
    assert one.status.allocatable is other.status.allocatable
    left, right = one.metadata.labels or {}, other.metadata.labels or {}
    assert all(a is b for a, b in zip(left.values(), right.values(), strict=True))


def test_nodes_with_equal_quantities_share_their_allocatable_amounts() -> None:
    state = ClusterState()
    for name, cpu in (("a", "4"), ("b", "4"), ("c", "8")):
        state.set_node(node(name, cpu=cpu).build())
    a, b, c = state.rows
    assert a.allocatable is b.allocatable
    assert (b.allocatable["cpu"], c.allocatable["cpu"]) == (4000, 8000)
    state.set_node(node("a", cpu="8").build())
    assert (a.allocatable["cpu"], b.allocatable["cpu"]) == (8000, 4000)


def test_interned_node_is_equal() -> None:
    for source in (NODE.build(), node("n").build(), node("n")._with("status.images", []).build()):
        assert SharedNodeFields().intern_fields(source)[0] == source


def test_heartbeat_keeps_interned_fields() -> None:
    state = ClusterState()
    state.set_node(NODE.build())
    before = state.rows[0].node
    state.set_node(NODE._with("metadata.resourceVersion", "7").build())
    after = state.rows[0].node
    assert after.metadata.resource_version == "7"
    assert after.metadata.labels is before.metadata.labels
    assert after.status is before.status


def test_images_with_different_sizes_are_different() -> None:
    shared = SharedNodeFields()
    lists = [interned(shared, NODE.build()), interned(shared, node("m").image("web:1", 101).build())]
    assert [(images[0].names, images[0].size_bytes) for images in lists] == [(("web:1",), 100), (("web:1",), 101)]


def test_image_is_freed_with_its_last_node() -> None:
    shared = SharedNodeFields()
    reference = shared.intern_fields(NODE.build())
    assert shared.images == 2
    del reference
    assert shared.images == 0
