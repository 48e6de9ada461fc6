"""GpuModel: place a pod with a GPU model label only on nodes that have the model."""

from dataclasses import dataclass

from pyscheduler.api import Cycle, FilterPlugin, NodeInfo, NodeTable, NodeToStatus, Pod, Reads, Rejection, Requirement

OTHER_MODEL = Rejection("node(s) had another GPU model", resolvable=False)  # evicting pods would not help


class GpuModel(FilterPlugin):
    name = "GpuModel"
    reads = Reads.OWN_NODE  # labels only, not the pods on the node

    @dataclass(frozen=True)
    class Args:
        label: str = "gpu-model"

        def __post_init__(self) -> None:
            if not self.label:
                raise ValueError("label: must not be empty")

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        wanted = pod.labels.get(self.args.label)
        return None if wanted is None or node.labels.get(self.args.label) == wanted else OTHER_MODEL

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        result = NodeToStatus(len(nodes))
        wanted = pod.labels.get(self.args.label)
        if wanted is not None:
            result.reject(~nodes.matches_requirement(Requirement(self.args.label, "In", (wanted,))), OTHER_MODEL)
        return result
