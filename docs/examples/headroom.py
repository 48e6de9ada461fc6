"""Headroom: keep a share of each node's cpu free."""

from dataclasses import dataclass

from pyscheduler.api import Cycle, FilterPlugin, NodeInfo, Pod, Reads, Rejection


class Headroom(FilterPlugin):
    name = "Headroom"
    reads = Reads.OWN_NODE_AND_PODS  # results are cached until the node or its pods change

    @dataclass(frozen=True)
    class Args:
        percent: int = 20

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        requested = node.requested.get("cpu", 0) + pod.requests.real.get("cpu", 0)
        limit = node.allocatable.get("cpu", 0) * (100 - self.args.percent) // 100
        return Rejection("node(s) would have too little headroom") if requested > limit else None
