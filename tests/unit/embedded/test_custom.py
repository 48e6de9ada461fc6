"""Custom resources: served, validated, defaulted, and deleted with their definition."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.schema.validation import checker

from .builders import MERGE, Cluster, Json, api_error, fields_of

GROUP = "example.com"
SCHEMA: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["minMember"],
            "properties": {
                "minMember": {"type": "integer", "minimum": 1, "maximum": 100},
                "mode": {"type": "string", "enum": ["Hard", "Soft"], "default": "Hard"},
                "weights": {"type": "object", "additionalProperties": {"type": "number"}},
                "limit": {"x-kubernetes-int-or-string": True},
                "word": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def definition(name: str = f"gangs.{GROUP}", **changes: Any) -> Json:
    version: Json = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    version["subresources"] = {"status": {}}
    names = {"plural": "gangs", "kind": "Gang", "shortNames": ["gg"]}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version], **changes}
    head: Json = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def with_schema(schema: Json) -> Json:
    return definition(versions=[{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}])


def gang(name: str = "g", **spec: Any) -> Json:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gang", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def cluster() -> Cluster:
    new_cluster = Cluster()
    new_cluster.create("customresourcedefinitions.apiextensions.k8s.io", definition())
    return new_cluster


def test_new_definition_is_established(cluster: Cluster) -> None:
    crd = cluster.get("customresourcedefinitions.apiextensions.k8s.io", f"gangs.{GROUP}")
    assert {c["type"]: c["status"] for c in crd["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert crd["status"]["acceptedNames"]["singular"] == "gang"


def test_objects_are_stored_with_defaults(cluster: Cluster) -> None:
    obj = cluster.create(f"gangs.{GROUP}", gang(minMember=2))
    assert obj["spec"] == {"minMember": 2, "mode": "Hard"}
    assert obj["metadata"]["generation"] == 1


def test_unknown_fields_are_pruned_unless_preserved(cluster: Cluster) -> None:
    obj = cluster.create(f"gangs.{GROUP}", gang(minMember=2, typo=1, free={"x": 1}, items=[{"a": "b", "z": 1}]))
    assert obj["spec"] == {"minMember": 2, "mode": "Hard", "free": {"x": 1}, "items": [{"a": "b"}]}


def test_strict_validation_reports_unknown_fields(cluster: Cluster) -> None:
    error = api_error(lambda: cluster.create(f"gangs.{GROUP}", gang(minMember=2, typo=1), validation="Strict"))
    assert 'unknown field "spec.typo"' in error.message


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({}, "spec.minMember", "FieldValueRequired"),
        ({"minMember": 0}, "spec.minMember", "FieldValueInvalid"),
        ({"minMember": 101}, "spec.minMember", "FieldValueInvalid"),
        ({"minMember": "2"}, "spec.minMember", "FieldValueTypeInvalid"),
        ({"minMember": True}, "spec.minMember", "FieldValueTypeInvalid"),
        ({"minMember": 1, "mode": "Medium"}, "spec.mode", "FieldValueNotSupported"),
        ({"minMember": 1, "word": "ABC"}, "spec.word", "FieldValueInvalid"),
        ({"minMember": 1, "word": "toolong"}, "spec.word", "FieldValueInvalid"),
        ({"minMember": 1, "weights": {"a": "b"}}, "spec.weights.a", "FieldValueTypeInvalid"),
        ({"minMember": 1, "limit": []}, "spec.limit", "FieldValueTypeInvalid"),
        ({"minMember": 1, "items": [{"a": 1}]}, "spec.items[0].a", "FieldValueTypeInvalid"),
    ],
)
def test_object_that_violates_the_schema_is_rejected(cluster: Cluster, spec: Json, field: str, reason: str) -> None:
    error = api_error(lambda: cluster.create(f"gangs.{GROUP}", gang(**spec)))
    assert fields_of(error) == [field]
    assert error.body()["details"]["causes"][0]["reason"] == reason
    assert error.message.startswith('Gang.example.com "g" is invalid: spec.')


NAME: Json = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "value", "messages"),
    [
        ({"type": "integer"}, "2", ['Invalid value: "string": spec in body must be of type integer: "string"']),
        ({"type": "integer"}, 2.5, ['Invalid value: "number": spec in body must be of type integer: "number"']),
        ({"type": "object"}, None, ['Invalid value: "null": spec in body must be of type object: "null"']),
        ({"type": "object", "nullable": True}, None, []),
        ({"type": "string", "nullable": True, "enum": ["a"]}, None, []),
        ({"type": "string", "enum": ["b", "a"]}, "c", ['Unsupported value: "c": supported values: "a", "b"']),
        ({"type": "integer", "minimum": 1}, 0, ["Invalid value: 0: spec in body should be greater than or equal to 1"]),
        ({"maximum": 1}, 2, ["Invalid value: 2: spec in body should be less than or equal to 1"]),
        ({"minimum": 1, "exclusiveMinimum": True}, 1, ["Invalid value: 1: spec in body should be greater than 1"]),
        ({"maximum": 1, "exclusiveMaximum": True}, 1, ["Invalid value: 1: spec in body should be less than 1"]),
        ({"multipleOf": 5}, 7, ["Invalid value: 7: spec in body should be a multiple of 5"]),
        ({"multipleOf": 0}, 7, []),
        ({**NAME, "pattern": "^a"}, "b", ["Invalid value: \"b\": spec in body should match '^a'"]),
        ({**NAME, "minLength": 2}, "a", ['Invalid value: "a": spec in body should have at least 2 chars long']),
        (
            {"type": "array", "items": {}, "minItems": 1},
            [],
            ["Invalid value: []: spec in body should have at least 1 items"],
        ),
        ({"x-kubernetes-int-or-string": True, "pattern": "%$"}, 5, []),
        (
            {"x-kubernetes-int-or-string": True, "pattern": "%$"},
            "5",
            ["Invalid value: \"5\": spec in body should match '%$'"],
        ),
        (
            {"x-kubernetes-int-or-string": True},
            [],
            ['Invalid value: "array": spec in body must be of type integer,string: "array"'],
        ),
        ({"anyOf": [{"minimum": 5}, {"maximum": 1}]}, 1, []),
        (
            {"anyOf": [{"minimum": 5}, {"maximum": 1}]},
            3,
            ['Invalid value: "": "spec" must validate at least one schema (anyOf)'],
        ),
        (
            {"oneOf": [{"minimum": 5}, {"minimum": 1}]},
            7,
            ['Invalid value: "": "spec" must validate one and only one schema (oneOf)'],
        ),
        ({"not": {"enum": [3]}}, 3, ['Invalid value: "": "spec" must not validate the schema (not)']),
        ({"allOf": [{"minimum": 5}]}, 3, ["Invalid value: 3: spec in body should be greater than or equal to 5"]),
        ({"$ref": "http://example.com/schema.json"}, 3, []),
    ],
)
def test_causes_have_the_words_of_the_api_server(schema: Json, value: Any, messages: list[str]) -> None:
    check = checker({"type": "object", "properties": {"spec": schema, "metadata": {"type": "string"}}})
    assert [cause.message for cause in check({"metadata": {"name": "g"}, "spec": value})] == messages


def test_all_causes_are_returned(cluster: Cluster) -> None:
    error = api_error(lambda: cluster.create(f"gangs.{GROUP}", gang(minMember=0, word="TOO LONG", weights={"a": True})))
    assert sorted(fields_of(error)) == ["spec.minMember", "spec.weights.a", "spec.word", "spec.word"]


def test_status_is_written_separately_without_a_new_generation(cluster: Cluster) -> None:
    cluster.create(f"gangs.{GROUP}", {**gang(minMember=2), "status": {"phase": "Early"}})
    assert "status" not in cluster.get(f"gangs.{GROUP}", "g")
    change = {"status": {"phase": "Running"}, "spec": {"minMember": 9}, "metadata": {"labels": {"a": "b"}}}
    after = cluster.patch(f"gangs.{GROUP}", "g", change, MERGE, "status")
    assert (after["status"], after["spec"]["minMember"]) == ({"phase": "Running"}, 2)
    assert "labels" not in after["metadata"]
    assert after["metadata"]["generation"] == 1
    assert cluster.patch(f"gangs.{GROUP}", "g", {"spec": {"minMember": 3}}, MERGE)["metadata"]["generation"] == 2


def test_update_requires_a_resource_version(cluster: Cluster) -> None:
    cluster.create(f"gangs.{GROUP}", gang(minMember=2))
    assert fields_of(api_error(lambda: cluster.update(f"gangs.{GROUP}", gang(minMember=3)))) == [
        "metadata.resourceVersion"
    ]


def test_strategic_merge_patch_of_a_custom_resource_is_unsupported(cluster: Cluster) -> None:
    cluster.create(f"gangs.{GROUP}", gang(minMember=2))
    assert api_error(lambda: cluster.patch(f"gangs.{GROUP}", "g", {"spec": {"minMember": 3}})).code == 415


def test_objects_are_deleted_with_their_definition(cluster: Cluster) -> None:
    cluster.create(f"gangs.{GROUP}", gang(minMember=2))
    crds = cluster.api.resource("customresourcedefinitions", "apiextensions.k8s.io")
    cluster.api.delete(crds, "", f"gangs.{GROUP}")
    assert api_error(lambda: cluster.api.resource("gangs", GROUP)).code == 404
    cluster.create("customresourcedefinitions.apiextensions.k8s.io", definition())
    assert cluster.names(f"gangs.{GROUP}") == []


def test_second_version_serves_the_same_objects(cluster: Cluster) -> None:
    crd = cluster.get("customresourcedefinitions.apiextensions.k8s.io", f"gangs.{GROUP}")
    versions = [*crd["spec"]["versions"], {**crd["spec"]["versions"][0], "name": "v2", "storage": False}]
    cluster.patch("customresourcedefinitions.apiextensions.k8s.io", crd["metadata"]["name"],
                  {"spec": {"versions": versions}}, MERGE)  # fmt: skip
    cluster.create(f"gangs.{GROUP}", gang(minMember=2))
    second = cluster.api.resource("gangs", GROUP, "v2")
    assert b'"apiVersion":"example.com/v2"' in cluster.api.get(second, "default", "g").json(second.from_stored)


@pytest.mark.parametrize(
    ("crd", "field"),
    [
        (definition(name="wrong.example.com"), "metadata.name"),
        (definition(scope="Galaxy"), "spec.scope"),
        (definition(versions=[]), "spec.versions"),
        (definition(versions=[{"name": "v1", "served": True, "storage": True}]), "openAPIV3Schema"),
        (with_schema({"type": "objekt"}), "openAPIV3Schema.type"),
        (with_schema({"properties": {"a": {"pattern": "("}}}), "properties[a].pattern"),
        (with_schema({"properties": {"a": 5}}), "properties[a]"),
        (with_schema({"items": {"type": "thing"}}), "items.type"),
        (with_schema({"properties": {"a": {"minimum": "1"}}}), "properties[a].minimum"),
        (with_schema({"properties": {"a": {"required": 1}}}), "properties[a].required"),
        (with_schema({"properties": {"a": {"anyOf": {}}}}), "properties[a].anyOf"),
        (with_schema({"oneOf": [{"type": "thing"}]}), "oneOf[0].type"),
        (with_schema({"not": 5}), "openAPIV3Schema.not"),
    ],
)
def test_invalid_definition_is_rejected(crd: Json, field: str) -> None:
    error = api_error(lambda: Cluster().create("customresourcedefinitions.apiextensions.k8s.io", crd))
    assert fields_of(error)[0].endswith(field)
