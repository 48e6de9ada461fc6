"""Rules of custom resources in CEL, and their scale subresource."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.cel.values import CelMap, Timestamp
from pyscheduler.embedded.schema.cel_rules import violations
from pyscheduler.embedded.schema.cel_values import as_cel, escaped

from .builders import MERGE, Cluster, Json, api_error, fields_of

CRDS, BOXES = "customresourcedefinitions.apiextensions.k8s.io", "boxes.example.com"
INTEGER: Json = {"type": "integer"}


def definition(spec: Json, **version: Any) -> Json:
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}, "status": status}}
    whole = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    names = {"plural": "boxes", "kind": "Box"}
    return {
        "metadata": {"name": BOXES},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [whole]},
    }


def serving(spec: Json, **version: Any) -> Cluster:
    cluster = Cluster()
    cluster.create(CRDS, definition(spec, **version))
    return cluster


def box(**spec: Any) -> Json:
    return {"metadata": {"name": "b"}, "spec": spec}


def rules(*texts: str, **more: Any) -> Json:
    return {"x-kubernetes-validations": [{"rule": text, **more} for text in texts]}


def causes(cluster: Cluster, body: Json) -> list[tuple[str, str]]:
    error = api_error(lambda: cluster.create(BOXES, body))
    assert error.details is not None
    return [(cause["field"], cause["message"]) for cause in error.details["causes"]]


LIMITS: Json = {"properties": {"low": INTEGER, "high": INTEGER}}


def test_violated_rule_rejects_the_object_with_its_message() -> None:
    cluster = serving({**LIMITS, **rules("self.low <= self.high", message="low must not exceed high")})
    assert causes(cluster, box(low=3, high=2)) == [("spec", "Invalid value: low must not exceed high")]
    assert cluster.create(BOXES, box(low=2, high=2))["spec"] == {"low": 2, "high": 2}


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        pytest.param({}, ("spec", "Invalid value: failed rule: self.low > 5"), id="no message"),
        pytest.param(
            {"messageExpression": "'low is ' + string(self.low)"}, ("spec", "Invalid value: low is 1"), id="expression"
        ),
        pytest.param({"fieldPath": ".low", "message": "m"}, ("spec.low", "Invalid value: m"), id="path"),
        pytest.param({"reason": "FieldValueForbidden", "message": "m"}, ("spec", "Forbidden: m"), id="reason"),
    ],
)
def test_cause_has_what_the_rule_says(more: Json, cause: tuple[str, str]) -> None:
    assert causes(serving({**LIMITS, **rules("self.low > 5", **more)}), box(low=1)) == [cause]


def test_rule_of_a_scalar_shows_the_value() -> None:
    cluster = serving({"properties": {"low": {**INTEGER, **rules("self % 2 == 0", message="must be even")}}})
    assert causes(cluster, box(low=3)) == [("spec.low", "Invalid value: 3: must be even")]


def test_rules_of_list_items_and_map_values() -> None:
    item = {"type": "string", **rules("self.startsWith('a')", message="m")}
    spec = {
        "properties": {
            "words": {"type": "array", "items": item},
            "named": {"type": "object", "additionalProperties": item},
        }
    }
    found = causes(serving(spec), box(words=["a", "b"], named={"x": "c"}))
    assert [path for path, _ in found] == ["spec.words[1]", "spec.named[x]"]


def test_failed_evaluation_is_a_cause() -> None:
    cluster = serving({**LIMITS, **rules("self.low <= self.high")})
    assert causes(cluster, box(low=3)) == [
        ("spec", 'Invalid value: "object": no such key: high evaluating rule: self.low <= self.high')
    ]


def test_transition_rule_is_evaluated_on_updates_only() -> None:
    cluster = serving({**LIMITS, **rules("self.low >= oldSelf.low", message="low must not shrink")})
    cluster.create(BOXES, box(low=3))
    cluster.patch(BOXES, "b", {"spec": {"low": 4}}, MERGE)
    assert fields_of(api_error(lambda: cluster.patch(BOXES, "b", {"spec": {"low": 1}}, MERGE))) == ["spec"]


def test_transition_rule_follows_the_keys_of_a_list() -> None:
    item = {"type": "object", "properties": {"name": {"type": "string"}, "size": INTEGER}}
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {**item, **rules("self.size == oldSelf.size")},
    }
    cluster = serving({"properties": {"parts": keyed}})
    cluster.create(BOXES, box(parts=[{"name": "a", "size": 1}]))
    both = [{"name": "b", "size": 5}, {"name": "a", "size": 1}]
    cluster.patch(BOXES, "b", {"spec": {"parts": both}}, MERGE)
    changed = [{"name": "b", "size": 5}, {"name": "a", "size": 2}]
    assert fields_of(api_error(lambda: cluster.patch(BOXES, "b", {"spec": {"parts": changed}}, MERGE))) == [
        "spec.parts[1]"
    ]


class CountedItem(dict[str, Any]):
    """A list item that counts how often its fields are read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        CountedItem.reads += 1
        return super().get(key, default)


def test_old_items_of_a_long_list_are_found_in_one_pass() -> None:
    item = {"type": "object", "properties": {"name": {"type": "string"}}, **rules("self.name == oldSelf.name")}
    keyed = {"type": "array", "x-kubernetes-list-map-keys": ["name"], "items": item}
    schema = {"type": "object", "properties": {"parts": keyed}}
    count = 300

    def obj() -> Json:
        return {"metadata": {}, "parts": [CountedItem(name=f"n{number}") for number in range(count)]}

    CountedItem.reads = 0
    assert list(violations(schema, obj(), obj())) == []
    assert CountedItem.reads <= 4 * count


def test_violation_of_the_schema_comes_first() -> None:
    spec = {"properties": {"low": {**INTEGER, "minimum": 1}}, **rules("self.low > 5")}
    assert [path for path, _ in causes(serving(spec), box(low=0))] == ["spec.low"]


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"rule": "self.x +"}, id="syntax error"),
        pytest.param({"rule": "1 + 1"}, id="not a bool"),
        pytest.param({"rule": "other"}, id="unknown variable"),
        pytest.param({"rule": ""}, id="empty"),
        pytest.param({}, id="no rule"),
        pytest.param({"rule": "true", "messageExpression": "1 + 1"}, id="message is not text"),
    ],
)
def test_rule_that_does_not_compile_rejects_the_definition(rule: Json) -> None:
    broken = definition({**LIMITS, "x-kubernetes-validations": [rule]})
    (field,) = fields_of(api_error(lambda: Cluster().create(CRDS, broken)))
    assert field.startswith("spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].")


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("size", "size"),
        ("in", "__in__"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("é", ""),
    ],
)
def test_field_names_are_escaped(name: str, identifier: str) -> None:
    assert escaped(name) == identifier


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        pytest.param(1, {"type": "number"}, 1.0, id="number"),
        pytest.param("aGk=", {"type": "string", "format": "byte"}, b"hi", id="bytes"),
        pytest.param("\u00e9", {"type": "string", "format": "byte"}, "\u00e9", id="no bytes"),
        pytest.param("1970-01-01T00:00:01Z", {"format": "date-time"}, Timestamp(10**9), id="time"),
        pytest.param("1970-01-02", {"format": "date"}, Timestamp(86_400 * 10**9), id="date"),
        pytest.param("soon", {"format": "date-time"}, "soon", id="no time"),
        pytest.param([1], {"items": {"type": "number"}}, (1.0,), id="list"),
    ],
)
def test_values_have_the_type_of_the_schema(value: Any, schema: Json, expected: Any) -> None:
    found = as_cel(value, schema)
    assert (type(found), found) == (type(expected), expected)


def test_keys_of_maps_are_not_escaped() -> None:
    found = as_cel({"a-b": {"a-b": 1}}, {"additionalProperties": {"properties": {"a-b": {"type": "number"}}}})
    assert isinstance(found, CelMap)
    inner = found.entries["a-b"]
    assert isinstance(inner, CelMap)
    assert inner.entries == {"a__dash__b": 1.0}


SCALE = {
    "specReplicasPath": ".spec.workers.count",
    "statusReplicasPath": ".status.ready",
    "labelSelectorPath": ".status.selector",
}
WORKERS: Json = {"properties": {"workers": {"type": "object", "properties": {"count": {**INTEGER, "maximum": 9}}}}}


def test_custom_resource_is_scaled_through_its_paths() -> None:
    cluster = serving(WORKERS, subresources={"status": {}, "scale": SCALE})
    resource = cluster.api.resource("boxes", "example.com")
    cluster.create(BOXES, box(workers={"count": 2}))
    cluster.patch(BOXES, "b", {"status": {"ready": 1, "selector": "app=b"}}, MERGE, "status")
    scale = cluster.api.scale(resource, "default", "b")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "app=b"})
    cluster.api.update_scale(resource, ("default", "b"), {"spec": {"replicas": 5}})
    assert cluster.get(BOXES, "b")["spec"] == {"workers": {"count": 5}}
    too_many = api_error(lambda: cluster.api.update_scale(resource, ("default", "b"), {"spec": {"replicas": 10}}))
    assert fields_of(too_many) == ["spec.workers.count"]


def test_scale_creates_the_fields_of_its_path() -> None:
    cluster = serving(WORKERS, subresources={"scale": SCALE})
    cluster.create(BOXES, box())
    resource = cluster.api.resource("boxes", "example.com")
    assert cluster.api.scale(resource, "default", "b")["spec"] == {}, "as Kubernetes omits a zero"
    cluster.api.update_scale(resource, ("default", "b"), {"spec": {"replicas": 5}})
    assert cluster.get(BOXES, "b")["spec"] == {"workers": {"count": 5}}


@pytest.mark.parametrize(
    ("scale", "field"),
    [
        pytest.param({**SCALE, "specReplicasPath": ".status.x"}, "specReplicasPath", id="not in the spec"),
        pytest.param({"specReplicasPath": ".spec.x"}, "statusReplicasPath", id="no status path"),
    ],
)
def test_definition_with_invalid_scale_paths_is_rejected(scale: Json, field: str) -> None:
    broken = definition(WORKERS, subresources={"scale": scale})
    assert fields_of(api_error(lambda: Cluster().create(CRDS, broken))) == [
        f"spec.versions[0].subresources.scale.{field}"
    ]
