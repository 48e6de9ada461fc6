"""Pair: bind two pods with the same `pair` label together or not at all."""

from dataclasses import dataclass

from pyscheduler.api import Cycle, NodeInfo, PermitPlugin, Pod, Rejection, Wait


class Pair(PermitPlugin):
    name = "Pair"
    indexes = ("pair",)  # required by handle.pods.by_label("pair", ...)

    @dataclass(frozen=True)
    class Args:
        wait_seconds: int = 30  # waitSeconds in YAML

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | Rejection | None:
        if "pair" not in pod.labels:
            return None
        pair = self.handle.pods.by_label("pair", pod.namespace, pod.labels["pair"])
        for other in pair.values():
            if other.uid == pod.uid:
                continue
            if other.node_name:
                return None  # already bound
            waiting = self.handle.waiting_pods.get(other.uid)
            if waiting is not None:
                waiting.allow(self.name)
                return None
        return Wait(self.args.wait_seconds, "the other pod of the pair has no node yet")
