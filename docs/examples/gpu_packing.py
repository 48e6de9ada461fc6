"""GpuPacking: prefer the nodes with the most GPUs in use."""

from pyscheduler.api import Cycle, DefaultNormalizeScore, NodeInfo, NodeTable, Pod, Reads, ScorePlugin, Scores

GPU = "nvidia.com/gpu"


class GpuPacking(ScorePlugin):
    name = "GpuPacking"
    reads = Reads.OWN_NODE_AND_PODS
    weight = 2  # if the configuration gives none
    normalizer = DefaultNormalizeScore()  # scales the highest raw score to 100

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return node.requested.get(GPU, 0)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return nodes.requested(GPU)
