"""A plugin that blocks the scheduler's thread for pods with the label `blocks`, once for each of them.

The label `blocks` names the method, the label `seconds` how long it takes.
"""

from __future__ import annotations

import time
from typing import Any

from pyscheduler.api import Cycle, FilterPlugin, Handle, NodeInfo, Pod, PreBindPlugin


class Blocking(FilterPlugin, PreBindPlugin):
    """Sleep in a method that must not block."""

    name = "Blocking"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._done: set[str] = set()

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        self._block("filter", pod)

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: Any) -> None:
        self._block("pre_bind", pod)

    def _block(self, method: str, pod: Pod) -> None:
        if pod.labels.get("blocks") == method and pod.uid not in self._done:
            self._done.add(pod.uid)
            time.sleep(float(pod.labels["seconds"]))
