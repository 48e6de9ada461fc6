"""ImageLocality: prefer nodes that already have the pod's images."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import msgspec
import numpy as np

from pyscheduler.api import (
    MAX_NODE_SCORE,
    Cycle,
    Images,
    NodeFields,
    NodeInfo,
    NodeTable,
    Pod,
    PodSignatureGroup,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
)
from pyscheduler.api.objects import Container, PodSpec

_MEBIBYTE = 1024 * 1024
MIN_THRESHOLD = 23 * _MEBIBYTE
"""Bytes of images up to which a node scores 0."""
MAX_IMAGE_THRESHOLD = 1000 * _MEBIBYTE
"""Bytes of images, for each image of the pod, at which a node has the maximum score."""


class _ImageUses(msgspec.Struct, frozen=True):
    """Images of a pod, one entry per use, with the bytes that each counts for on a node that has it."""

    uses: tuple[tuple[str, int], ...]
    most: int

    def score(self, images: Images) -> int:
        present = sum(size for name, size in self.uses if name in images)
        counted = min(max(present, MIN_THRESHOLD), self.most)
        return MAX_NODE_SCORE * (counted - MIN_THRESHOLD) // (self.most - MIN_THRESHOLD)

    def score_all(self, nodes: NodeTable) -> Scores:
        present = np.zeros(len(nodes), np.int64)
        for name, size in self.uses:
            present += nodes.has_image(name) * np.int64(min(size, self.most))  # more counts no more, and might overflow
        counted = np.clip(present, MIN_THRESHOLD, self.most)
        return MAX_NODE_SCORE * (counted - MIN_THRESHOLD) // (self.most - MIN_THRESHOLD)


_PRE_SCORE_STATE: StateKey[_ImageUses] = StateKey("ImageLocality")


class ImageLocality(PreScorePlugin, ScorePlugin):
    """Score nodes by the bytes of the pod's images that they have.

    Each image is scaled by the share of nodes that have it, so that a rare image does not attract all pods to one node.
    An image has the size that the first node reported.
    """

    name = "ImageLocality"
    reads = Reads.ALL_NODES
    reads_labels = False
    reads_claims = False
    reads_match_fields = False

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        nodes, names = self.handle.nodes.table(), _image_names(group.spec)
        return tuple([name for name in names if nodes.nodes_with_image(name)]), len(names)

    def node_fields_of(self, group: PodSignatureGroup) -> NodeFields:
        nodes = self.handle.nodes.table()
        is_known = any(map(nodes.nodes_with_image, _image_names(group.spec)))
        return NodeFields.IMAGES if is_known else NodeFields.NONE

    @property
    def signing_version(self) -> int:
        return self.handle.nodes.table().image_names_version

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        cycle[_PRE_SCORE_STATE] = _image_uses(pod, nodes)
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return cycle[_PRE_SCORE_STATE].score(node.images)

    def score_cache_key(self, cycle: Cycle) -> Hashable | None:
        return cycle[_PRE_SCORE_STATE]

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        if _PRE_SCORE_STATE not in cycle:
            cycle[_PRE_SCORE_STATE] = _image_uses(pod, nodes)
        return cycle[_PRE_SCORE_STATE].score_all(nodes)


def _image_uses(pod: Pod, nodes: NodeTable) -> _ImageUses:
    names = _image_names(pod.spec)
    uses = tuple((name, size) for name in names if (size := _counted(name, nodes)))
    return _ImageUses(uses, MAX_IMAGE_THRESHOLD * len(names))


def _image_names(spec: PodSpec) -> list[str]:
    """Return the images of all containers and image volumes, one entry per use."""
    volumes: list[Mapping[str, object]] = [v["image"] for v in spec.volumes or () if v.get("image") is not None]
    return [_tagged(c.image) for c in _containers(spec)] + [_tagged(str(v.get("reference", ""))) for v in volumes]


def _containers(spec: PodSpec) -> tuple[Container, ...]:
    return (*(spec.init_containers or ()), *spec.containers)


def _counted(image: str, nodes: NodeTable) -> int:
    """Return the image's bytes times the share of nodes that have it; the share first, as kube-scheduler rounds."""
    share = float(nodes.nodes_with_image(image)) / float(nodes.total)
    return int(float(nodes.image_size(image)) * share)


def _tagged(image: str) -> str:
    """Return the image name with a tag: nodes report `app:latest` for a pod's `app`."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
