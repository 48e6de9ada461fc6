"""Malformed objects and patches are rejected with a Status, never with an internal error."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyscheduler.embedded.objects import without_nulls
from pyscheduler.embedded.server_state import WriteOptions
from pyscheduler.embedded.status import ApiStatusError

from .builders import MERGE, STRATEGIC, Cluster, Json, config_map, pod, workload

JSON_PATCH = "application/json-patch+json"
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "b c", "1Gi"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "key", "x y"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def rich_pod() -> Json:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["a"]}
    obj = pod(
        labels={"a": "b"},
        tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        nodeSelector={"zone": "a"},
        schedulingGates=[{"name": "g"}],
        affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        topologySpreadConstraints=[{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}],
        volumes=[{"name": "v", "configMap": {"name": "c"}}],
        overhead={"cpu": "1m"},
    )
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    more = {"ports": [{"containerPort": 1}], "livenessProbe": {"exec": {"command": ["x"]}}, "resources": resources}
    obj["spec"]["containers"][0] |= more
    obj["metadata"] |= {"annotations": {"a": "b"}, "finalizers": ["a/b"]}
    return obj


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in members:
        found += paths(item, (*path, name))
    return found


def with_value_at(obj: Json, path: tuple[Any, ...], value: Any) -> Json:
    result = copy.deepcopy(obj)
    here: Any = result
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    return result


def error_code(action: Callable[[], object]) -> int:
    """Return the code of the ApiStatusError that `action` raises, 0 if it succeeds."""
    try:
        action()
    except ApiStatusError as error:
        return error.code
    return 0


KINDS = {
    "pods": rich_pod(),
    "deployments.apps": workload("Deployment", strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}),
    "nodes": {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": 1}},
    },
    "customresourcedefinitions.apiextensions.k8s.io": {
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boxes", "kind": "Box"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {"n": {"type": "integer"}},
                                    "x-kubernetes-validations": [{"rule": "self.n > 1", "messageExpression": "'x'"}],
                                }
                            },
                        }
                    },
                }
            ],
        },
    },
    "configmaps": config_map(a="b"),
    "services": {
        "metadata": {"name": "s"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 1, "targetPort": "a"}], "selector": {"a": "b"}},
    },
    "limitranges": {
        "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}}]},
    },
    "resourcequotas": {
        "metadata": {"name": "q"},
        "spec": {
            "hard": {"pods": "1"},
            "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]},
        },
    },
    "ingresses.networking.k8s.io": {
        "metadata": {"name": "i"},
        "spec": {
            "rules": [
                {
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "s", "port": {"number": 1}}},
                            }
                        ]
                    }
                }
            ]
        },
    },
    "networkpolicies.networking.k8s.io": {
        "metadata": {"name": "n"},
        "spec": {"podSelector": {}, "egress": [{"ports": [{"port": 1}], "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
    },
    "endpointslices.discovery.k8s.io": {
        "metadata": {"name": "e"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"port": 1}],
    },
    "horizontalpodautoscalers.autoscaling": {
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "maxReplicas": 2,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}],
        },
    },
    "certificatesigningrequests.certificates.k8s.io": {
        "metadata": {"name": "c"},
        "spec": {
            "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0=",
            "signerName": "example.com/x",
            "usages": ["any"],
        },
    },
    "validatingwebhookconfigurations.admissionregistration.k8s.io": {
        "metadata": {"name": "w"},
        "webhooks": [
            {
                "name": "a.example.com",
                "sideEffects": "None",
                "clientConfig": {"service": {"namespace": "n", "name": "s"}},
                "rules": [{"operations": ["CREATE"]}],
            }
        ],
    },
}
CASES = [(kind, path) for kind, obj in KINDS.items() for path in paths(obj)]


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(CASES), VALUES, st.sampled_from(["Strict", "Ignore"]))
def test_malformed_object_is_never_an_internal_error(
    case: tuple[str, tuple[Any, ...]], value: Any, validation: str
) -> None:
    kind, path = case
    cluster = Cluster()
    obj = without_nulls(with_value_at(KINDS[kind], path, value))
    assert error_code(lambda: cluster.create(kind, obj, validation=validation)) < 500


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([case for case in CASES if not case[0].startswith("custom")]),
    VALUES,
    st.sampled_from([MERGE, STRATEGIC, JSON_PATCH, "application/apply-patch+yaml"]),
    st.sampled_from(["", "status"]),
)
def test_malformed_patch_is_never_an_internal_error(
    case: tuple[str, tuple[Any, ...]], value: Any, media_type: str, subresource: str
) -> None:
    kind, path = case
    cluster = Cluster()
    cluster.create(kind, copy.deepcopy(KINDS[kind]))
    body: Any = with_value_at(KINDS[kind], path, value)
    if media_type == JSON_PATCH:
        body = [{"op": "add", "path": "/" + "/".join(map(str, path)), "value": value}]
    resource = cluster.api.resource(*kind.split(".", 1))
    where = ("default" if resource.namespaced else "", KINDS[kind]["metadata"]["name"], subresource)
    options = WriteOptions(manager="fuzz")
    assert error_code(lambda: cluster.api.patch(resource, where, (media_type, body), options)) < 500
