"""The largest pods that an API server accepts: each repeats one field as often as the size limits allow.

A request may have 3 MiB, and its protobuf in etcd 1.5 MiB. Every field that a tenant can repeat in a pod is repeated
here in the form that costs the scheduler most: distinct where equal values are evaluated once, and without a match
where the first match ends the search.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final

Json = dict[str, Any]
MOST_JSON: Final = 2_900_000
"""Bytes of a request, below the API server's limit."""
MOST_STORED: Final = 1_500_000
"""Bytes in etcd, below its limit."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
SERIAL: Final = "example.com/serial"
"""A label with a different number on each node."""


def stored_size(part: Any) -> int:
    """Return the approximate protobuf size of a piece of JSON: every field has a tag and a length."""
    if isinstance(part, dict):
        return sum(2 + stored_size(value) for value in part.values()) + 1
    if isinstance(part, list):
        return sum(2 + stored_size(value) for value in part)
    return len(part.encode()) if isinstance(part, str) else 3


def as_many(make: Callable[[int], Any], keys: bool = False) -> int:
    """Return how often one pod can repeat the item; with `keys`, as keys of a map with "" for values."""
    sample = [make(i) for i in range(100_000, 100_100)]
    text = sum(len(json.dumps(each, separators=(",", ":"))) + (4 if keys else 1) for each in sample) / 100
    stored = sum(stored_size(each) + (8 if keys else 3) for each in sample) / 100
    return int(min(MOST_JSON / text, MOST_STORED / stored))


def repeated(make: Callable[[int], Any]) -> list[Any]:
    """Return the maximum list for one pod."""
    return [make(i) for i in range(as_many(make))]


def mapped(make: Callable[[int], str], value: str = "") -> Json:
    """Return the maximum map for one pod."""
    return {make(i): value for i in range(as_many(make, keys=True))}


def needs(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def term(*expressions: Json) -> Json:
    return {"matchExpressions": list(expressions)}


def node_terms(make: Callable[[int], Json]) -> Json:
    """Return a pod with required node affinity of many terms."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": repeated(make)}}}}


def one_node_term(make: Callable[[int], Json]) -> Json:
    """Return one term with the maximum of expressions."""
    terms = [{"matchExpressions": repeated(make)}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def one_node_value_list(operator: str) -> Json:
    values = repeated(lambda i: f"x{i}")
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term(needs(HOSTNAME, operator, *values))]}}}}


def node_preferences(make: Callable[[int], Json]) -> Json:
    wishes = repeated(lambda i: {"weight": i % 100 + 1, "preference": make(i)})
    return {"affinity": {"nodeAffinity": {PREFERRED: wishes}}}


def pod_terms(kind: str, make: Callable[[int], Json]) -> Json:
    return {"affinity": {kind: {REQUIRED: repeated(make)}}}


def pod_preferences(kind: str, make: Callable[[int], Json]) -> Json:
    return {"affinity": {kind: {PREFERRED: repeated(lambda i: {"weight": 1, "podAffinityTerm": make(i)})}}}


def peers(key: str, selector: Json | None = None, **more: Any) -> Json:
    return {"topologyKey": key, **({"labelSelector": selector} if selector is not None else {}), **more}


def spread(key: str, selector: Json, when: str = "DoNotSchedule", **more: Any) -> Json:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector, **more}


def spreads(make: Callable[[int], Json]) -> Json:
    return {"topologySpreadConstraints": repeated(make)}


def tolerations(make: Callable[[int], Json]) -> Json:
    return {"tolerations": repeated(make)}


def containers(make: Callable[[int], Json], field: str = "containers") -> Json:
    return {field: repeated(make)}


def requests(make: Callable[[int], str], amount: str) -> Json:
    sides = as_many(make, keys=True) // 2 * 9 // 10
    amounts = {make(i): amount for i in range(sides)}
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]}


def _lacks(key: str) -> Json:
    return {"matchExpressions": [needs(key, "DoesNotExist")]}


def _no_zone(i: int) -> Json:
    return needs(ZONE, "NotIn", f"x{i}")


SPECS: Final[dict[str, Callable[[], Json]]] = {
    # -- required node affinity: terms
    "node terms, empty": lambda: node_terms(lambda i: {}),
    "node terms, Exists, all alike": lambda: node_terms(lambda i: term(needs("a", "Exists"))),
    "node terms, Exists, distinct keys": lambda: node_terms(lambda i: term(needs(f"a{i}", "Exists"))),
    "node terms, In, distinct keys": lambda: node_terms(lambda i: term(needs(f"a{i}", "In", "x"))),
    "node terms, Gt on host names": lambda: node_terms(lambda i: term(needs(HOSTNAME, "Gt", str(i)))),
    "node terms, Gt on numbers": lambda: node_terms(lambda i: term(needs(SERIAL, "Gt", str(10**6 + i)))),
    "node terms, Lt on numbers": lambda: node_terms(lambda i: term(needs(SERIAL, "Lt", str(-i)))),
    "node terms, Gt and Lt on numbers": lambda: node_terms(
        lambda i: term(needs(SERIAL, "Gt", str(i)), needs(SERIAL, "Lt", str(i)))
    ),
    "node terms, Gt below and Lt above": lambda: node_terms(
        lambda i: term(needs(SERIAL, "Gt", str(i % 5000)), needs(SERIAL, "Lt", str(i % 4999)), needs("none", "Exists"))
    ),
    "node terms, not numbers": lambda: node_terms(lambda i: term(needs(SERIAL, "Gt", f"x{i}"))),
    "node terms, In on host names": lambda: node_terms(lambda i: term(needs(HOSTNAME, "In", f"x{i}"))),
    "node terms, In on host names that exist": lambda: node_terms(
        lambda i: term(needs(HOSTNAME, "In", f"n{i % 5000}"), needs("a", "Exists"))
    ),
    "node terms, NotIn and In on one key": lambda: node_terms(
        lambda i: term(needs(ZONE, "In", f"z{i % 3}"), needs(ZONE, "NotIn", f"z{i % 3}", f"x{i}"))
    ),
    "node terms, two keys": lambda: node_terms(lambda i: term(_no_zone(i), needs(HOSTNAME, "In", f"x{i}"))),
    "node terms, three keys": lambda: node_terms(
        lambda i: term(_no_zone(i), needs(HOSTNAME, "NotIn", f"n{i % 5000}"), needs("a", "Exists"))
    ),
    "node terms, pairs of hosts": lambda: node_terms(
        lambda i: term(
            needs(HOSTNAME, "NotIn", f"n{i % 5000}"), needs(SERIAL, "In", str(i % 4999)), needs("a", "Exists")
        )
    ),
    "node terms, fields": lambda: node_terms(lambda i: {"matchFields": [needs("metadata.name", "In", f"x{i}")]}),
    "node terms, fields that exist": lambda: node_terms(
        lambda i: {"matchFields": [needs("metadata.name", "In", f"n{i}")], **term(needs("a", "Exists"))}
    ),
    "node terms, fields NotIn": lambda: node_terms(
        lambda i: {"matchFields": [needs("metadata.name", "NotIn", f"n{i % 5000}")], **term(needs("a", "Exists"))}
    ),
    # -- required node affinity: expressions and values
    "node expressions, NotIn": lambda: one_node_term(lambda i: needs(HOSTNAME, "NotIn", f"x{i}")),
    "node expressions, NotIn, distinct keys": lambda: one_node_term(lambda i: needs(f"a{i}", "NotIn", "x")),
    "node expressions, DoesNotExist": lambda: one_node_term(lambda i: needs(f"a{i}", "DoesNotExist")),
    "node expressions, Gt": lambda: one_node_term(lambda i: needs(SERIAL, "Gt", str(-i - 1))),
    "node values, In": lambda: one_node_value_list("In"),
    "node values, NotIn": lambda: one_node_value_list("NotIn"),
    "node terms, In of 100 values": lambda: node_terms(
        lambda i: term(needs(HOSTNAME, "In", *(f"x{i}-{j}" for j in range(100))))
    ),
    "node selector": lambda: {"nodeSelector": mapped(lambda i: f"a{i}")},
    # -- preferred node affinity
    "node preferences, empty": lambda: node_preferences(lambda i: {}),
    "node preferences, DoesNotExist": lambda: node_preferences(lambda i: term(needs(f"a{i}", "DoesNotExist"))),
    "node preferences, Gt": lambda: node_preferences(lambda i: term(needs(SERIAL, "Gt", str(i)))),
    "node preferences, In": lambda: node_preferences(lambda i: term(needs(HOSTNAME, "In", f"n{i}"))),
    "node preferences, two keys": lambda: node_preferences(
        lambda i: term(_no_zone(i), needs(HOSTNAME, "NotIn", f"n{i % 5000}"))
    ),
    "node preferences, not numbers": lambda: node_preferences(lambda i: term(needs(SERIAL, "Gt", f"x{i}"))),
    # -- taints
    "tolerations, all alike": lambda: tolerations(lambda i: {"key": "x", "operator": "Exists"}),
    "tolerations, Exists": lambda: tolerations(lambda i: {"key": f"x{i}", "operator": "Exists"}),
    "tolerations, Equal": lambda: tolerations(lambda i: {"key": "team", "value": f"x{i}"}),
    "tolerations, no key but an effect": lambda: tolerations(lambda i: {"operator": "Exists", "effect": "NoExecute"}),
    # -- pod affinity
    "anti-affinity, empty selectors": lambda: pod_terms("podAntiAffinity", lambda i: peers("k", {})),
    "anti-affinity, distinct": lambda: pod_terms(
        "podAntiAffinity", lambda i: peers(HOSTNAME, {"matchLabels": {f"k{i}": ""}})
    ),
    "anti-affinity, distinct values": lambda: pod_terms(
        "podAntiAffinity", lambda i: peers(HOSTNAME, {"matchLabels": {"app": f"x{i}"}})
    ),
    "anti-affinity, DoesNotExist and another": lambda: pod_terms(
        "podAntiAffinity",
        lambda i: peers(HOSTNAME, {"matchExpressions": [needs(f"k{i}", "DoesNotExist"), needs("none", "Exists")]}),
    ),
    "anti-affinity, distinct topologies": lambda: pod_terms("podAntiAffinity", lambda i: peers(f"t{i}", {})),
    "anti-affinity, namespace selectors": lambda: pod_terms(
        "podAntiAffinity",
        lambda i: peers(HOSTNAME, {"matchLabels": {"a": ""}}, namespaceSelector={"matchLabels": {f"n{i}": ""}}),
    ),
    "anti-affinity, namespaces": lambda: pod_terms(
        "podAntiAffinity", lambda i: peers(HOSTNAME, {}, namespaces=[f"n{i}"])
    ),
    "anti-affinity, many namespaces in one term": lambda: {
        "affinity": {"podAntiAffinity": {REQUIRED: [peers(HOSTNAME, {}, namespaces=repeated(lambda i: f"n{i}"))]}}
    },
    "anti-affinity, many values in one term": lambda: {
        "affinity": {
            "podAntiAffinity": {
                REQUIRED: [peers(HOSTNAME, {"matchExpressions": [needs("app", "In", *repeated(lambda i: f"x{i}"))]})]
            }
        }
    },
    "anti-affinity, many expressions in one term": lambda: {
        "affinity": {
            "podAntiAffinity": {
                REQUIRED: [peers(HOSTNAME, {"matchExpressions": repeated(lambda i: needs(f"k{i}", "DoesNotExist"))})]
            }
        }
    },
    "affinity, all of one kind": lambda: pod_terms("podAffinity", lambda i: peers(HOSTNAME, _lacks(f"k{i}"))),
    "affinity, distinct topologies": lambda: pod_terms("podAffinity", lambda i: peers(f"t{i}", {})),
    "affinity, none like it": lambda: pod_terms("podAffinity", lambda i: peers(ZONE, {"matchLabels": {f"k{i}": ""}})),
    "preferred affinity, all pods": lambda: pod_preferences("podAffinity", lambda i: peers(HOSTNAME, _lacks(f"k{i}"))),
    "preferred affinity, all alike": lambda: pod_preferences("podAffinity", lambda i: peers(HOSTNAME, {})),
    "preferred affinity, distinct topologies": lambda: pod_preferences("podAffinity", lambda i: peers(f"t{i}", {})),
    "preferred anti-affinity, distinct": lambda: pod_preferences(
        "podAntiAffinity", lambda i: peers(ZONE, {"matchLabels": {f"k{i}": ""}})
    ),
    # -- spreading
    "spreading, distinct topologies, hard": lambda: spreads(lambda i: spread(f"s{i}", {})),
    "spreading, distinct topologies, soft": lambda: spreads(lambda i: spread(f"s{i}", {}, "ScheduleAnyway")),
    "spreading, distinct selectors, soft": lambda: spreads(
        lambda i: spread(f"s{i}", {"matchLabels": {f"k{i}": "v"}}, "ScheduleAnyway")
    ),
    "spreading, many expressions": lambda: {
        "topologySpreadConstraints": [
            spread(ZONE, {"matchExpressions": repeated(lambda i: needs(f"k{i}", "DoesNotExist"))})
        ]
    },
    "spreading, many values": lambda: {
        "topologySpreadConstraints": [
            spread(ZONE, {"matchExpressions": [needs("app", "NotIn", *repeated(lambda i: f"x{i}"))]})
        ]
    },
    "spreading, matchLabelKeys": lambda: {
        "topologySpreadConstraints": [spread(ZONE, {}, matchLabelKeys=repeated(lambda i: f"k{i}"))]
    },
    # -- other
    "containers, each with a resource": lambda: containers(
        lambda i: {"name": f"c{i}", "image": "i", "resources": {"requests": {f"x.io/{i}": "1"}}}
    ),
    "containers, distinct images": lambda: containers(lambda i: {"name": f"c{i}", "image": f"i{i}"}),
    "init containers, requests": lambda: containers(
        lambda i: {
            "name": f"c{i}",
            "image": "i",
            "restartPolicy": "Always",
            "resources": {"requests": {"cpu": "1u", f"x.io/{i}": "1"}},
        },
        "initContainers",
    ),
    "extended resources": lambda: requests(lambda i: f"x.io/r{i}", "1"),
    "extended resources, none of each": lambda: requests(lambda i: f"x.io/r{i}", "0"),
    "host ports": lambda: {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": repeated(
                    lambda i: {"containerPort": 1, "hostPort": i % 65535 + 1, "hostIP": f"10.0.{i % 250}.1"}
                ),
            }
        ]
    },
    "volumes, claims": lambda: {
        "volumes": repeated(lambda i: {"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}})
    },
    "volumes, ephemeral": lambda: {
        "volumes": repeated(lambda i: {"name": f"v{i}", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
    },
    "volumes, disks": lambda: {
        "volumes": repeated(lambda i: {"name": f"v{i}", "gcePersistentDisk": {"pdName": f"d{i}"}})
    },
    "volumes, empty": lambda: {"volumes": repeated(lambda i: {"name": f"v{i}", "emptyDir": {}})},
    "scheduling gates": lambda: {"schedulingGates": repeated(lambda i: {"name": f"g{i}"})},
    "resource claims": lambda: {"resourceClaims": repeated(lambda i: {"name": f"r{i}", "resourceClaimName": f"c{i}"})},
    "readiness gates": lambda: {"readinessGates": repeated(lambda i: {"conditionType": f"g{i}"})},
    "image pull secrets": lambda: {"imagePullSecrets": repeated(lambda i: {"name": f"s{i}"})},
}
METADATA: Final[dict[str, Callable[[], Json]]] = {
    "labels": lambda: {"labels": mapped(lambda i: f"label-{i}", "v")},
    "owners": lambda: {
        "ownerReferences": repeated(lambda i: {"apiVersion": "v1", "kind": "Pod", "name": f"o{i}", "uid": f"u{i}"})
    },
    "finalizers": lambda: {"finalizers": repeated(lambda i: f"example.com/f{i}")},
}
NAMES: Final = (*SPECS, *METADATA)


@cache
def largest(name: str, pod: str = "hostile") -> bytes:
    """Return one of the pods as JSON."""
    spec: Json = {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "i"}]}
    metadata: Json = {"name": pod, "namespace": "default", "uid": pod, "resourceVersion": "1"}
    if name in METADATA:
        metadata |= METADATA[name]()
    else:
        spec |= SPECS[name]()
    text = json.dumps({"metadata": metadata, "spec": spec}, separators=(",", ":"))
    return text.replace('"spec":{', '"spec": {', 1).encode()
