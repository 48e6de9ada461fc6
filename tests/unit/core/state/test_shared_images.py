"""Interning of node images."""

from __future__ import annotations

from pyscheduler.api.objects import NodeObject
from pyscheduler.core.state.shared_images import SharedImages
from pyscheduler.testing import node

NODE = node("n").image("web:1", 100).image("db:2", 200)


def reported(source: NodeObject) -> list[tuple[tuple[str, ...] | None, int]]:
    return [(image.names, image.size_bytes) for image in source.status.images or ()]


def test_equal_images_are_interned() -> None:
    shared = SharedImages()
    one, other = shared.intern_images(NODE.build()), shared.intern_images(node("m").image("db:2", 200).build())
    assert one.status.images is not None
    assert other.status.images is not None
    assert one.status.images[1] is other.status.images[0]
    assert len(shared) == 2


def test_node_with_interned_images_is_equal() -> None:
    assert SharedImages().intern_images(NODE.build()) == NODE.build()
    assert SharedImages().intern_images(node("n").build()) == node("n").build()


def test_images_with_different_sizes_are_different() -> None:
    shared = SharedImages()
    nodes = [shared.intern_images(NODE.build()), shared.intern_images(node("m").image("web:1", 101).build())]
    assert [reported(node)[0] for node in nodes] == [(("web:1",), 100), (("web:1",), 101)]


def test_image_is_freed_with_its_last_node() -> None:
    shared = SharedImages()
    reference = shared.intern_images(NODE.build())
    assert len(shared) == 2
    del reference
    assert len(shared) == 0
