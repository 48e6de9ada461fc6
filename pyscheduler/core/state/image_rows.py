"""Rows of the nodes that report an image, for the images that incoming pods use.

Nodes of a large cluster report some fifty images each, in as many combinations as there are nodes, but few of these
images are used by pods that are being scheduled. So an image is looked for on all nodes once, and then on changed ones.
"""

from __future__ import annotations

import numpy as np

from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.node_columns import ChangeLog
from pyscheduler.kernels import Rows

_MAX_IMAGES = 4096
"""Number of images at which all are dropped; most belong to templates that are gone."""


class _Image:
    __slots__ = ("mark", "rows")

    def __init__(self) -> None:
        self.mark = -1
        self.rows: set[int] = set()


class ImageRows:
    """Rows by image name, updated by the log of changed nodes when they are read."""

    def __init__(self, nodes: list[NodeRow], log: ChangeLog) -> None:
        self._nodes = nodes
        self._log = log
        self._images: dict[str, _Image] = {}

    def of(self, name: str) -> Rows:
        """Return the rows of the nodes that report the image, in no order."""
        image = self._images.get(name)
        if image is None:
            if len(self._images) >= _MAX_IMAGES:
                self._images.clear()
            image = self._images[name] = _Image()
        if image.mark != self._log.mark:
            self._update(name, image)
        return np.fromiter(image.rows, np.intp, len(image.rows))

    def _update(self, name: str, image: _Image) -> None:
        nodes = self._nodes
        changed = self._log.since(image.mark) if image.mark >= 0 else None
        image.mark = self._log.mark
        if changed is None or len(changed) >= len(nodes):
            image.rows = {node.row for node in nodes if name in node.images}
            return
        for row in set(changed.tolist()):
            if row < len(nodes) and name in nodes[row].images:
                image.rows.add(row)
            else:
                image.rows.discard(row)
