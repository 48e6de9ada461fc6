"""GpuPacking: fills one GPU node before the next."""

from pyscheduler.api import ByMax, Cycle, NodeInfo, NodeTable, Pod, Reads, ScorePlugin, Scores

GPU = "nvidia.com/gpu"


class GpuPacking(ScorePlugin):
    name = "GpuPacking"
    reads = Reads.OWN_ROW
    weight = 2  # where the configuration gives none
    normalizer = ByMax()  # the fullest node becomes 100, the others in proportion

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return node.requested.get(GPU, 0)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return nodes.requested(GPU)
