"""Interned image objects of node statuses: each node reports up to fifty, and most nodes report the same ones.

This saves memory, and makes it fast to detect that a node's images have not changed, as in nearly every node update.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import msgspec

from pyscheduler.api.objects import ContainerImage, NodeObject

_Key = tuple[tuple[str, ...] | None, int]


class SharedImages:
    """Images in use, each weakly referenced until no node reports it any more."""

    def __init__(self) -> None:
        self._images: WeakValueDictionary[_Key, ContainerImage] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._images)

    def intern_images(self, source: NodeObject) -> NodeObject:
        """Return the node with interned images."""
        images = source.status.images
        if not images:
            return source
        shared = tuple([self._images.setdefault((image.names, image.size_bytes), image) for image in images])
        return msgspec.structs.replace(source, status=msgspec.structs.replace(source.status, images=shared))
