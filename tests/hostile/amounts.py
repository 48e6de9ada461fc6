"""Amounts at and beyond the limit of 64 bits: of pods, overhead, nodes, and sums.

Each case is one node and one pod, as a document for `pyscheduler evaluate` and for the real kube-scheduler's
framework. The expected result is computed with integers of any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyscheduler.testing import node, pod

Json = dict[str, Any]
MOST: Final = 2**63 - 1
AMOUNTS: Final = {
    "90000000000000": 9 * 10**13,
    "1e15": 10**15,
    "9223372036854775": MOST // 1000,
    "9223372036854776": MOST // 1000 + 1,
    "1e18": 10**18,
    "4Ei": 2**62,
    "9223372036854775807": MOST,
    "9223372036854775808": MOST + 1,
    "8Ei": 2**63,
    "1e19": 10**19,
    "18446744073709551616": 2**64,
    "1e30": 10**30,
    "1" + "0" * 30: 10**30,
}
RESOURCES: Final = {"cpu": 8, "memory": 16 * 2**30, "ephemeral-storage": 100 * 2**30, "example.com/gpu": 4}
"""Default capacity of the node."""
SCORED: Final = ("cpu", "memory")
PLACES: Final = ("pod", "two containers", "overhead", "node", "node and pod", "placed", "two placed")


class Case(NamedTuple):
    """`requested` is the pod's request, `used` the requests on the node and `capacity` the node's, as exact numbers."""

    name: str
    document: Json
    requested: int
    used: int
    capacity: int
    is_scored: bool

    @property
    def fits(self) -> bool:
        """Return True if there is room; each number is capped at the maximum first."""
        return min(self.requested, MOST) + min(self.used, MOST) <= min(self.capacity, MOST)

    @property
    def is_within(self) -> bool:
        """Return True if each number, the sums and the intermediate values of scores fit in 64 bits."""
        percent = 100 if self.is_scored else 1
        return max(self.requested + self.used, self.capacity * percent) <= MOST


def cases() -> Iterator[Case]:
    """Yield every amount of every resource in every place."""
    for resource in RESOURCES:
        for text, number in AMOUNTS.items():
            for place in PLACES:
                yield _case(resource, text, number, place)


def _case(resource: str, text: str, number: int, place: str) -> Case:
    amount = {"pod": 1, "node and pod": 1, "two containers": 2, "overhead": 1}.get(place, 0) * number
    requested = amount + (place not in ("pod", "node and pod", "two containers"))
    used = {"placed": 1, "two placed": 2}.get(place, 0) * number
    capacity = number if place.startswith("node") else RESOURCES[resource]
    small, big = {resource: "1"}, {resource: text}
    objects = [node("n1")._with("status.allocatable", _allocatable(resource, text if place.startswith("node") else ""))]
    placed = [pod(f"q{i}").spec(containers=[_container("c", big)]).on("n1") for i in range(used // number)]
    wants = [big] * (amount // number if place != "overhead" else 0) or [small]
    subject = pod("p").spec(containers=[_container(f"c{i}", each) for i, each in enumerate(wants)])
    if place == "overhead":
        subject = subject.spec(overhead=big)
    name = f"{text} of {resource}: {place}"
    manifests = [NAMESPACE, *(each.manifest for each in (*objects, *placed, subject))]
    unit = 1000 if resource == "cpu" else 1
    document = {"id": name, "objects": manifests, "pods": ["default/p"]}
    return Case(name, document, requested * unit, used * unit, capacity * unit, resource in SCORED)


def _allocatable(resource: str, text: str) -> Json:
    return {"pods": "110", **{name: str(n) for name, n in RESOURCES.items()}, **({resource: text} if text else {})}


def _container(name: str, amounts: Json) -> Json:
    return {"name": name, "image": "a:1", "resources": {"requests": amounts, "limits": amounts}}


NAMESPACE: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "uid": "default"}}
