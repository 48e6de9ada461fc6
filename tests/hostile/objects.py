"""Hostile objects: what a tenant may try to send, the outcome of each, and its maximum cost.

The unit of cost is a plain pod: the cost of one without constraints from its JSON to its binding, in the same run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from pyscheduler.testing import PodBuilder, pod

Json = dict[str, Any]

SCHEDULED, WAITS, SKIPPED, IGNORED = "scheduled", "waits", "skipped", "ignored"
"""Outcome: bound; pending with a reason; invalid, counted and skipped; not for this scheduler."""
MANY = 5_000
SOMETHING = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}


class Hostile(NamedTuple):
    """One pod with its maximum cost, in plain pods, for reading it and one attempt.

    `admitted` is True if the API server of Kubernetes 1.37 accepts it, which the end-to-end test checks.
    """

    make: Callable[[], PodBuilder | bytes]
    outcome: str = SCHEDULED
    cost: int = 300
    admitted: bool = True

    @property
    def raw(self) -> bytes:
        """Return the object as JSON."""
        made = self.make()
        return made if isinstance(made, bytes) else json.dumps(made.manifest).encode()


def hostile() -> PodBuilder:
    return pod("hostile").requests(cpu="1m")


def term(key: str, i: int) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {f"k{i}": f"v{i}"}}}


def spreads(when: str) -> PodBuilder:
    selector = {"matchLabels": {"app": "web"}}
    same = {"maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": selector}
    return hostile().spec(topologySpreadConstraints=[{**same, "topologyKey": f"t{i}"} for i in range(MANY)])


def node_terms(key: str) -> PodBuilder:
    return hostile().node_affinity(
        *({"matchExpressions": [{"key": f"{key}{i}", "operator": "In", "values": ["x"]}]} for i in range(MANY))
    )


def node_preferences() -> PodBuilder:
    wish = "preferredDuringSchedulingIgnoredDuringExecution"
    wishes = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": f"p{i}", "operator": "Exists"}]}} for i in range(MANY)
    ]
    return hostile().spec(affinity={"nodeAffinity": {wish: wishes}})


def preferred_terms() -> PodBuilder:
    wish = "preferredDuringSchedulingIgnoredDuringExecution"
    wishes = [{"weight": 1, "podAffinityTerm": term(f"t{i}", i)} for i in range(MANY)]
    return hostile().spec(affinity={"podAntiAffinity": {wish: wishes}})


def with_labels(number: int) -> PodBuilder:
    return hostile()._with("metadata.labels", {f"label-{i}": "v" * 40 for i in range(number)})


def broken(path: str, value: Any) -> PodBuilder:
    return hostile()._with(path, value)


def raw(text: bytes) -> bytes:
    """Return a pod with these bytes after its name."""
    return (
        b'{"metadata":{"name":"hostile","namespace":"default","uid":"hostile"' + text + b"},"
        b'"spec": {"containers":[{"name":"main","image":"a:1"}],"schedulerName":"default-scheduler"}}'
    )


def deep(levels: int) -> bytes:
    return raw(b',"unknown":' + b'{"a":' * levels + b"1" + b"}" * levels)


def managed(levels: int) -> bytes:
    """Return a pod with a deeply nested field manager entry: the API server checks no schema there."""
    owner = b'"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1"'
    return raw(b',"managedFields":[{' + owner + b',"fieldsV1":' + b'{"f:a":' * levels + b"{}" + b"}" * levels + b"}]")


def containers(number: int) -> PodBuilder:
    one = {"image": "a:1", "resources": {"requests": {"cpu": "1u", "memory": "1"}, "limits": {"memory": "1"}}}
    return hostile().spec(containers=[{**one, "name": f"c{i}"} for i in range(number)])


def host_ports() -> PodBuilder:
    ports = [{"containerPort": i, "hostPort": i, "protocol": "TCP"} for i in range(1, 15_001)]
    return hostile().spec(containers=[{"name": "more", "image": "a:1", "ports": ports}])


def resources(number: int, amount: str) -> PodBuilder:
    amounts = {f"example.com/r{i}": amount for i in range(number)}
    return hostile().spec(
        containers=[{"name": "m", "image": "a:1", "resources": {"requests": amounts, "limits": amounts}}]
    )


def twice(resource: str, amount: str) -> PodBuilder:
    container = {"image": "a:1", "resources": {"requests": {resource: amount}}}
    return pod("hostile").spec(containers=[{**container, "name": "a"}, {**container, "name": "b"}])


def owned() -> PodBuilder:
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": False}
    return broken("metadata.ownerReferences", [{**owner, "name": f"o{i}", "uid": f"u{i}"} for i in range(MANY)])


def claims() -> PodBuilder:
    return hostile().spec(
        volumes=[{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(MANY)]
    )


PODS: dict[str, Hostile] = {
    # -- size
    "an annotation of a megabyte": Hostile(lambda: hostile().annotation("a", "x" * 1_000_000), admitted=False),
    "annotations of 250 KiB": Hostile(lambda: hostile().annotation("a", "x" * 250_000)),
    "10,000 labels": Hostile(lambda: with_labels(10_000)),
    "5,000 owners": Hostile(owned),
    "3,000 containers": Hostile(lambda: containers(3_000), SCHEDULED, 3_000),
    "15,000 host ports": Hostile(host_ports, SCHEDULED, 3_000),
    "5,000 volumes that claim": Hostile(claims, WAITS, 3_000),
    "5,000 scheduling gates": Hostile(
        lambda: hostile().spec(schedulingGates=[{"name": f"g{i}"} for i in range(MANY)]), WAITS
    ),
    "5,000 tolerations": Hostile(
        lambda: hostile().spec(tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(MANY)])
    ),
    "5,000 resources that no node has": Hostile(lambda: resources(MANY, "1"), WAITS, 3_000),
    "5,000 times none of a resource": Hostile(lambda: resources(MANY, "0"), SCHEDULED, 3_000),
    "5,000 conditions": Hostile(
        lambda: hostile().status(conditions=[{"type": f"t{i}", "status": "True"} for i in range(MANY)])
    ),
    # -- selectors
    "5,000 node affinity terms": Hostile(lambda: node_terms("a"), WAITS, 3_000),
    "5,000 node preferences": Hostile(node_preferences, SCHEDULED, 3_000),
    "5,000 anti-affinity terms, all of one topology": Hostile(
        lambda: hostile().pod_anti_affinity(*(term("kubernetes.io/hostname", i) for i in range(MANY))), SCHEDULED, 2_000
    ),
    "5,000 anti-affinity terms, each of its own topology": Hostile(
        lambda: hostile().pod_anti_affinity(*(term(f"t{i}", i) for i in range(MANY))), SCHEDULED, 3_000
    ),
    "5,000 affinity terms": Hostile(
        lambda: hostile().pod_affinity(*(term(f"t{i}", i) for i in range(MANY))), WAITS, 3_000
    ),
    "5,000 preferred anti-affinity terms": Hostile(preferred_terms, SCHEDULED, 3_000),
    "5,000 spread constraints that must hold": Hostile(lambda: spreads("DoNotSchedule"), WAITS, 3_000),
    "5,000 spread constraints that should hold": Hostile(lambda: spreads("ScheduleAnyway"), SCHEDULED, 3_000),
    # -- numbers
    "10^30 of cpu": Hostile(lambda: hostile().requests(cpu="1e30"), WAITS),
    "9*10^18 of memory, twice": Hostile(lambda: twice("memory", "9e18"), WAITS),
    "10^30 of memory": Hostile(lambda: hostile().requests(memory="1" + "0" * 30), WAITS),
    "1e400 of cpu": Hostile(lambda: hostile().requests(cpu="1e400"), SKIPPED),
    "NaN of cpu": Hostile(lambda: hostile().requests(cpu="NaN"), SKIPPED, admitted=False),
    "Infinity of memory": Hostile(lambda: hostile().requests(memory="Infinity"), SKIPPED, admitted=False),
    "less than nothing": Hostile(lambda: hostile().requests(cpu="-1"), SCHEDULED, admitted=False),
    "a hundred thousand digits": Hostile(lambda: hostile().requests(cpu="1" * 100_000), SKIPPED),
    "a number beyond floats": Hostile(lambda: raw(b',"generation":1e999'), SKIPPED, admitted=False),
    "a priority of 2^31": Hostile(lambda: hostile().priority(2**31), admitted=False),
    "a priority of -2^31": Hostile(lambda: hostile().priority(-(2**31)), admitted=False),
    "a priority of 10^400": Hostile(lambda: hostile().priority(10**400), SKIPPED, admitted=False),
    # -- text
    "a label that is not UTF-8": Hostile(lambda: raw(b',"labels":{"a":"\xff\xfe"}'), SKIPPED, admitted=False),
    "half a surrogate pair in a label": Hostile(lambda: raw(b',"labels":{"a":"\\ud800"}'), admitted=False),
    "half a surrogate pair in an annotation": Hostile(lambda: raw(b',"annotations":{"a":"\\ud800"}')),
    "a label with control characters": Hostile(lambda: hostile().label("a/b/c", "\x00\n"), admitted=False),
    "an unknown field of 100,000 levels": Hostile(lambda: deep(100_000), admitted=False),
    "an unknown field of 5,000 levels": Hostile(lambda: deep(5_000)),
    "a field manager of 9,900 levels": Hostile(lambda: managed(9_900)),
    "a version that is no number": Hostile(lambda: broken("metadata.resourceVersion", "9" * 10_000)),
    # -- shape
    "labels that are a list": Hostile(lambda: broken("metadata.labels", ["a"]), SKIPPED, admitted=False),
    "a spec that is text": Hostile(lambda: broken("spec", "none"), SKIPPED, admitted=False),
    "containers that are a number": Hostile(lambda: pod("hostile").spec(containers=7), SKIPPED, admitted=False),
    "a null for a name": Hostile(lambda: broken("metadata.name", None), SKIPPED, admitted=False),
    # -- names
    "another scheduler's name, nearly ours": Hostile(lambda: hostile().scheduler("default-scheduler "), IGNORED),
    "a node that is nowhere": Hostile(lambda: hostile().on("nowhere"), IGNORED),
    "a nomination to nowhere": Hostile(lambda: hostile().nominated("nowhere")),
    "a group that is nowhere": Hostile(lambda: hostile().spec(schedulingGroup={"podGroupName": "nowhere"})),
}
