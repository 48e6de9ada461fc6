"""Interned fields of node objects: most nodes have the same label keys, conditions, amounts and images.

This saves most of a node's memory, and makes it fast to detect that a node's images have not changed, as in nearly
every node update.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import TypeVar
from weakref import WeakValueDictionary

from msgspec.structs import replace

from pyscheduler.api.objects import ContainerImage, NodeCondition, NodeObject, ObjectMeta, Quantity
from pyscheduler.api.reads import NodeFields

Conditions = tuple[NodeCondition, ...]
Quantities = dict[str, Quantity]
K = TypeVar("K")
V = TypeVar("V")

_MAX_IMAGE_SIZE = 1 << 50
"""Maximum image size in bytes; larger reported ones are capped, so that sums fit int64."""
_MAX_CONDITIONS = 1024
_MAX_QUANTITIES = 4096
_MAX_SHORT = 16
"""Maximum length of the values of annotations that are interned."""


class ImageSet:
    """Images that nodes report. Interned: equal ones are one object."""

    __slots__ = ("__weakref__", "reported", "sizes")

    def __init__(self, reported: tuple[ContainerImage, ...]) -> None:
        self.reported = reported
        self.sizes: Mapping[str, int] = {
            name: min(image.size_bytes, _MAX_IMAGE_SIZE) for image in reported for name in image.names or ()
        }
        """Sizes in bytes by image name."""


LABELS, SPEC, ALLOCATABLE, IMAGES, OTHER = (field.value for field in NodeFields)
EXISTENCE = 1 << len(NodeFields)
"""Part of a change of nodes: a node was added or removed, and rows may have become those of other nodes."""
ANY_CHANGE = NodeFields.ALL.value | EXISTENCE
"""All parts of a change of nodes."""
NO_IMAGES = ImageSet(())
NO_NODE = NodeObject(metadata=ObjectMeta(name=""))


class SharedNodeFields:
    """Fields in use; images are weakly referenced until no node reports them any more."""

    def __init__(self) -> None:
        self._images: WeakValueDictionary[tuple[tuple[str, ...] | None, int], ContainerImage] = WeakValueDictionary()
        self._sets: WeakValueDictionary[tuple[int, ...], ImageSet] = WeakValueDictionary()
        """Image sets by the ids of their images, which exist as long as the set."""
        self._conditions: dict[Conditions, Conditions] = {}
        self._quantities: dict[tuple[tuple[str, Quantity], ...], Quantities] = {}

    @property
    def images(self) -> int:
        """Number of interned images."""
        return len(self._images)

    def intern_fields(
        self, source: NodeObject, before: NodeObject = NO_NODE, images: ImageSet = NO_IMAGES
    ) -> tuple[NodeObject, ImageSet]:
        """Return the node with interned fields, and its images.

        `before` is its previous version with interned fields, and `images` the images of that. Fields that have not
        changed are the same objects as before.
        """
        new, old, status = source.metadata, before.metadata, source.status
        meta = replace(
            new,
            name=old.name or intern(new.name),
            labels=old.labels if new.labels == old.labels else _interned(new.labels),
            annotations=old.annotations if new.annotations == old.annotations else _interned_short(new.annotations),
        )
        if status == before.status:
            return replace(source, metadata=meta, status=before.status), images
        if status.images != before.status.images:
            images = self._share_images(status.images) if status.images else NO_IMAGES
        status = replace(
            status,
            allocatable=before.status.allocatable
            if status.allocatable == before.status.allocatable
            else status.allocatable
            and _shared(self._quantities, _MAX_QUANTITIES, tuple(status.allocatable.items()), status.allocatable),
            images=status.images and images.reported,
            conditions=status.conditions
            and _shared(self._conditions, _MAX_CONDITIONS, status.conditions, status.conditions),
        )
        return replace(source, metadata=meta, status=status), images

    def _share_images(self, reported: tuple[ContainerImage, ...]) -> ImageSet:
        images = tuple([self._images.setdefault((image.names, image.size_bytes), image) for image in reported])
        key = tuple(map(id, images))
        shared = self._sets.get(key)
        if shared is None:
            shared = self._sets[key] = ImageSet(images)
        return shared


def changed_fields(before: NodeObject, now: NodeObject) -> int:
    """Return which parts of a node object differ, as the value of NodeFields: none in most updates, heartbeats.

    Unchanged fields are the same objects (`SharedNodeFields.intern_fields`).
    """
    changed = 0
    if before.metadata.labels is not now.metadata.labels:
        changed |= LABELS
    if before.metadata.annotations is not now.metadata.annotations:
        changed |= OTHER
    if before.spec != now.spec:
        changed |= SPEC
    old, new = before.status, now.status
    if old is not new:
        if old.allocatable is not new.allocatable:
            changed |= ALLOCATABLE
        if old.images is not new.images:
            changed |= IMAGES
        if old.conditions != new.conditions or old.declared_features != new.declared_features:
            changed |= OTHER
    return changed


def _shared(known: dict[K, V], most: int, key: K, value: V) -> V:
    """Return the first value with this key; all are forgotten when there are too many."""
    if len(known) >= most:
        known.clear()
    return known.setdefault(key, value)


def _interned(labels: dict[str, str] | None) -> dict[str, str] | None:
    """Return the mapping with interned keys and values."""
    return labels and {intern(k): intern(v) for k, v in labels.items()}


def _interned_short(values: dict[str, str] | None) -> dict[str, str] | None:
    """Return the mapping with interned keys and short values; long ones are rarely equal."""
    return values and {intern(k): intern(v) if len(v) <= _MAX_SHORT else v for k, v in values.items()}
