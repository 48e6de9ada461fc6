"""Inference of the smallest sufficient `Reads` of a plugin for one pod, by recording what Filter and Score read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, cast

from pyscheduler.api import (
    Cycle,
    FilterPlugin,
    Handle,
    NodeInfo,
    NodeTable,
    Plugin,
    Pod,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
)

_SAMPLE: Final = 50
"""Number of nodes in the recorded run."""
_OF_THE_ROW: Final = frozenset({"node.pods", "node.requested", "node.non_zero_requested", "node.used_ports"})
_OF_ONE_POD: Final = frozenset(
    f"pod.{name}" for name in ("name", "uid", "key", "created", "conditions", "nominated_node_name", "resource_version")
)


class _Recorder:
    """Proxy of an object that records which attributes are read."""

    def __init__(self, kind: str, target: Any, seen: set[str]) -> None:
        self._of = kind, target, seen

    def __getattr__(self, name: str) -> Any:
        kind, target, seen = self._of
        seen.add(f"{kind}.{name}")
        return getattr(target, name)

    def __len__(self) -> int:
        return len(self._of[1])

    def __iter__(self) -> Iterator[Any]:
        kind, target, seen = self._of
        seen.add(f"{kind}.nodes")
        return iter(target)


class _RecordedCycle(Cycle):
    """Cycle that records which of its attributes are read."""

    def __init__(self, pod: Pod, seen: set[str]) -> None:
        self.seen: set[str] = set()
        super().__init__(0.0, "default-scheduler", pod.uid)
        self.seen = seen

    def __getattribute__(self, name: str) -> Any:
        if name in ("now", "rng", "random_bits", "uid", "attempt"):
            object.__getattribute__(self, "seen").add(f"cycle.{name}")
        return super().__getattribute__(name)

    def __getitem__(self, key: Any) -> Any:
        self.seen.add("cycle.state")
        return super().__getitem__(key)


def infer_reads(plugin: Plugin, pod: Pod, nodes: NodeTable) -> Reads | None:
    """Return the smallest correct claim for the pod on these nodes; None if it cannot be determined.

    That is the case if the plugin has state, ignores the pod, or reads more than a claim can cover.
    """
    if vars(plugin).keys() - {"args", "handle"}:
        return None
    seen: set[str] = set()
    try:
        recorded = type(plugin)(plugin.args, cast(Handle, _Recorder("handle", plugin.handle, seen)))
        _run(recorded, cast(Pod, _Recorder("pod", pod, seen)), _RecordedCycle(pod, seen), nodes, seen)
    except Exception:  # a call that fails does not show what the plugin reads
        return None
    if seen & _OF_ONE_POD or any(each.startswith(("handle.", "cycle.")) and each != "cycle.state" for each in seen):
        return None
    if "cycle.state" not in seen and not any(each.startswith("node.") for each in seen):
        return None
    if "cycle.state" in seen and any(each.startswith("table.") for each in seen):
        return Reads.DOMAINS
    return Reads.OWN_NODE_AND_PODS if seen & _OF_THE_ROW else Reads.OWN_NODE


def _run(plugin: Plugin, pod: Pod, cycle: Cycle, nodes: NodeTable, seen: set[str]) -> None:
    table = cast(NodeTable, _Recorder("table", nodes, seen))
    sample = [cast(NodeInfo, _Recorder("node", node, seen)) for node in islice(nodes, _SAMPLE)]
    if isinstance(plugin, PreFilterPlugin):
        plugin.pre_filter(cycle, pod, table)
    if isinstance(plugin, FilterPlugin):
        for node in sample:
            plugin.filter(cycle, pod, node)
    if isinstance(plugin, PreScorePlugin):
        plugin.pre_score(cycle, pod, table)
    if isinstance(plugin, ScorePlugin):
        for node in sample:
            plugin.score(cycle, pod, node)
