"""Pods with spread constraints for the tests of PodTopologySpread."""

from __future__ import annotations

from typing import Any

from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

Manifest = dict[str, Any]
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB: Manifest = {"matchLabels": {"app": "web"}}
IN_A, IN_A_TOO, IN_B = node("a1").zone("a"), node("a2").zone("a"), node("b1").zone("b")
ZONES = [IN_A, IN_A_TOO, IN_B]
NOWHERE = node("nowhere")
EVERYTHING: Manifest = {}
"""The empty selector."""
UNEVEN = ("node(s) didn't match pod topology spread constraints",)
LACKING = ("node(s) didn't match pod topology spread constraints (missing required label)",)


def spread(key: str = ZONE, skew: int = 1, when: str = HARD, selector: Manifest | None = WEB, **more: Any) -> Manifest:
    """Return a constraint as the API object states it, by default over zones for the web pods."""
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector, **more}
    return {field: value for field, value in constraint.items() if value is not None}


def web(*constraints: Manifest) -> PodBuilder:
    """Return a web pod with constraints of its own."""
    made = pod("new").label("app", "web")
    return made.spec(topologySpreadConstraints=list(constraints)) if constraints else made


def placed(*nodes: str | NodeBuilder) -> list[PodBuilder]:
    """Return a web pod on each of the nodes."""
    names = [n if isinstance(n, str) else n.manifest["metadata"]["name"] for n in nodes]
    return [pod(f"old-{i}").label("app", "web").on(name) for i, name in enumerate(names)]
