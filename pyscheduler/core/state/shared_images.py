"""Nodes report the same images: of equal ones a single object is kept, since fifty on every node come to much memory.

It also makes it quick to see that a node's images have not changed, which is what nearly every update of a node says.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import msgspec

from pyscheduler.api.objects import ContainerImage, NodeObject

_Key = tuple[tuple[str, ...] | None, int]


class SharedImages:
    """The images in use; one is forgotten when no node reports it any more."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[_Key, ContainerImage] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def intern_images(self, source: NodeObject) -> NodeObject:
        """The same node, its images shared with all others that report them."""
        images = source.status.images
        if not images:
            return source
        shared = tuple([self._known.setdefault((image.names, image.size_bytes), image) for image in images])
        return msgspec.structs.replace(source, status=msgspec.structs.replace(source.status, images=shared))
