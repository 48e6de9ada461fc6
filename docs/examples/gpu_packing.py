"""GpuPacking: fills one GPU node before the next."""

from pyscheduler.api import Cycle, DefaultNormalizeScore, NodeInfo, NodeTable, Pod, Reads, ScorePlugin, Scores

GPU = "nvidia.com/gpu"


class GpuPacking(ScorePlugin):
    name = "GpuPacking"
    reads = Reads.OWN_NODE_AND_PODS
    weight = 2  # where the configuration gives none
    normalizer = DefaultNormalizeScore()  # the fullest node becomes 100, the others in proportion

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return node.requested.get(GPU, 0)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return nodes.requested(GPU)
