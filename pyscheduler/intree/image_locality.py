"""ImageLocality: a node that has the pod's images already can start it sooner."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pyscheduler.api import (
    MAX_NODE_SCORE,
    Cycle,
    Images,
    NodeInfo,
    NodeTable,
    Pod,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
)

_MEBIBYTE = 1024 * 1024
LEAST = 23 * _MEBIBYTE
"""Bytes of images below which a node counts as having none."""
MOST_PER_CONTAINER = 1000 * _MEBIBYTE
"""Bytes of images, for each container, beyond which more do not count."""


class _ImageUses(msgspec.Struct, frozen=True):
    """The images of a pod, one entry for each use, with the bytes that it counts for on a node that has it."""

    uses: tuple[tuple[str, int], ...]
    most: int

    def score(self, images: Images) -> int:
        present = sum(size for name, size in self.uses if name in images)
        counted = min(max(present, LEAST), self.most)
        return MAX_NODE_SCORE * (counted - LEAST) // (self.most - LEAST)


_PRE_SCORE_STATE: StateKey[_ImageUses] = StateKey("ImageLocality")


class ImageLocality(PreScorePlugin, ScorePlugin):
    """Scores nodes by the bytes of the pod's images they have, each image scaled by its share of all nodes, so that a
    rare image does not draw all pods to one node. An image has the size that the first node told of it.
    """

    name = "ImageLocality"
    reads = Reads.ALL_NODES
    reads_labels = False
    reads_claims = False
    reads_match_fields = False

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        cycle[_PRE_SCORE_STATE] = _image_uses(pod, nodes)
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return cycle[_PRE_SCORE_STATE].score(node.images)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        if _PRE_SCORE_STATE not in cycle:
            cycle[_PRE_SCORE_STATE] = _image_uses(pod, nodes)
        return nodes.by_images(cycle[_PRE_SCORE_STATE].score)


def _image_uses(pod: Pod, nodes: NodeTable) -> _ImageUses:
    spec = pod.spec
    containers = (*(spec.init_containers or ()), *spec.containers)
    volumes: list[Mapping[str, object]] = [v["image"] for v in spec.volumes or () if v.get("image")]
    names = [_tagged(c.image) for c in containers] + [_tagged(str(v.get("reference", ""))) for v in volumes]
    uses = tuple((name, size) for name in names if (size := _counted(name, nodes)))
    return _ImageUses(uses, MOST_PER_CONTAINER * len(containers))


def _counted(image: str, nodes: NodeTable) -> int:
    """The image's bytes times the share of all nodes that have it; the share first, as kube-scheduler does."""
    share = float(nodes.nodes_with_image(image)) / float(nodes.total)
    return int(float(nodes.image_size(image)) * share)


def _tagged(image: str) -> str:
    """The name with its tag: nodes report `app:latest` for what a pod calls `app`."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
