"""Nodes that report the same images share them."""

from __future__ import annotations

from pyscheduler.api.objects import NodeObject
from pyscheduler.core.state.shared_images import SharedImages
from pyscheduler.testing import node

NODE = node("n").image("web:1", 100).image("db:2", 200)


def reported(source: NodeObject) -> list[tuple[tuple[str, ...] | None, int]]:
    return [(image.names, image.size_bytes) for image in source.status.images or ()]


def test_equal_images_are_one() -> None:
    shared = SharedImages()
    one, other = shared.intern_images(NODE.build()), shared.intern_images(node("m").image("db:2", 200).build())
    assert one.status.images is not None
    assert other.status.images is not None
    assert one.status.images[1] is other.status.images[0]
    assert len(shared) == 2


def test_a_node_is_otherwise_as_it_was() -> None:
    assert SharedImages().intern_images(NODE.build()) == NODE.build()
    assert SharedImages().intern_images(node("n").build()) == node("n").build()


def test_the_same_name_with_another_size_is_another_image() -> None:
    shared = SharedImages()
    nodes = [shared.intern_images(NODE.build()), shared.intern_images(node("m").image("web:1", 101).build())]
    assert [reported(node)[0] for node in nodes] == [(("web:1",), 100), (("web:1",), 101)]


def test_an_image_is_forgotten_with_its_last_node() -> None:
    shared = SharedImages()
    kept = shared.intern_images(NODE.build())
    assert len(shared) == 2
    del kept
    assert len(shared) == 0
