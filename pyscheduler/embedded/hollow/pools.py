"""Node pools: hollow nodes of one size with common labels and taints, spread over zones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pyscheduler.api import ResourceKind
from pyscheduler.embedded.hollow.template import NodeTemplate
from pyscheduler.embedded.objects import Json

POOL_LABEL: Final = "pyscheduler.io/node-pool"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
CONFIG_MAPS: Final = ResourceKind("", "v1", "configmaps", "ConfigMap")
POOLS_CONFIG_MAP: Final = ("kube-system", "pyscheduler-node-pools")
"""Namespace and name of the ConfigMap with the pools of a running cluster, by which `nodes add` sizes new nodes."""


@dataclass(frozen=True)
class NodePool:
    """Nodes named `<name>-1`, `<name>-2` and so on; `amounts` is their capacity as a resource list."""

    name: str
    count: int = 1
    amounts: Mapping[str, str] = field(default_factory=lambda: {"cpu": "4", "memory": "32Gi", "pods": "110"})
    labels: Mapping[str, str] = field(default_factory=dict)
    zones: Sequence[str] = ()
    taints: Sequence[Mapping[str, str]] = ()

    def template(self, number: int) -> NodeTemplate:
        """Return the template of node `number`, counted from 1; zones are used in turn."""
        labels = {POOL_LABEL: self.name, **self.labels}
        if self.zones:
            labels[ZONE_LABEL] = self.zones[(number - 1) % len(self.zones)]
        named = {name: self.amounts[name] for name in ("cpu", "memory", "pods")}
        extra = {name: amount for name, amount in self.amounts.items() if name not in named}
        taints = [dict(taint) for taint in self.taints]
        return NodeTemplate(f"{self.name}-{number}", **named, extra=extra, labels=labels, taints=taints)

    def templates(self) -> list[NodeTemplate]:
        """Return the templates of the pool's first `count` nodes."""
        return [self.template(number) for number in range(1, self.count + 1)]

    def new_templates(self, count: int, names: Iterable[str]) -> list[NodeTemplate]:
        """Return the templates of `count` more nodes, numbered after the highest of `names`."""
        numbers = [int(rest) for name in names if (rest := name.removeprefix(f"{self.name}-")).isdecimal()]
        first = max(numbers, default=0) + 1
        return [self.template(number) for number in range(first, first + count)]


def pools_config_map(pools: Iterable[NodePool]) -> Json:
    """Return the ConfigMap that describes the pools."""
    namespace, name = POOLS_CONFIG_MAP
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name},
        "data": {pool.name: msgspec.json.encode(pool).decode() for pool in pools},
    }


def pools_of(config_map: Json) -> dict[str, NodePool]:
    """Return the pools by name. msgspec.MsgspecError if the ConfigMap has been edited to something else."""
    data = config_map.get("data") or {}
    return {name: msgspec.json.decode(text, type=NodePool) for name, text in data.items()}
