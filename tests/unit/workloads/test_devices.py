"""A node's description of devices becomes the ResourceSlices of a driver."""

from __future__ import annotations

import json

import pytest

from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, RecordAction
from pyscheduler.embedded.workloads.devices import MAX_DEVICES, reconcile
from tests.unit.workloads.builders import Json, terminating

GPU = "devices.pyscheduler.io/gpu.example.com"
TYPED = {
    "count": 1,
    "attributes": {"model": "a100", "index": 3, "shared": False},
    "capacity": {"memory": "80Gi"},
}


def node(text: str = "", *, label: str = "", name: str = "n") -> Json:
    annotations = {GPU: text} if text else {}
    labels = {GPU: label} if label else {}
    return {"kind": "Node", "metadata": {"name": name, "uid": "u", "labels": labels, "annotations": annotations}}


def stored(described: Json) -> list[Json]:
    """Return the slices that the API server stores after the first reconcile."""
    made = [action.obj for action in reconcile(described, []) if isinstance(action, Create)]
    return [{**each, "metadata": {**each["metadata"], "uid": each["metadata"]["name"]}} for each in made]


@pytest.mark.parametrize("described", [node("2"), node(label="2"), node('{"count": 2}'), node("2", label="7")])
def test_number_of_devices_is_a_label_or_an_annotation(described: Json) -> None:
    (made,) = stored(described)
    assert made["metadata"]["name"] == "n-gpu.example.com-0"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert made["spec"] == {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "device-0"}, {"name": "device-1"}],
    }


def test_attributes_have_their_types_and_capacity_is_a_quantity() -> None:
    (made,) = stored(node(json.dumps(TYPED)))
    assert made["spec"]["devices"] == [
        {
            "name": "device-0",
            "attributes": {"model": {"string": "a100"}, "index": {"int": 3}, "shared": {"bool": False}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
    ]


def test_many_devices_are_split_into_slices_of_one_pool() -> None:
    made = stored(node("300"))
    assert [len(each["spec"]["devices"]) for each in made] == [128, 128, 44]
    assert {each["spec"]["pool"]["resourceSliceCount"] for each in made} == {3}


def test_unchanged_slices_are_not_written() -> None:
    assert reconcile(node("300"), stored(node("300"))) == []


def test_changed_devices_are_a_new_generation_of_the_whole_pool() -> None:
    actions = reconcile(node("129"), stored(node("300")))
    patches = [action.patch["spec"]["pool"] for action in actions if isinstance(action, Patch)]
    assert patches == [{"name": "n", "generation": 2, "resourceSliceCount": 2}] * 2
    assert [action.key[1] for action in actions if isinstance(action, Delete)] == ["n-gpu.example.com-2"]


@pytest.mark.parametrize("described", [node(), node("0"), terminating(node("2"))])
def test_slices_of_a_node_without_devices_are_deleted(described: Json) -> None:
    (action,) = reconcile(described, stored(node("2")))
    assert isinstance(action, Delete)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("many", "'many' is neither a number nor JSON", id="text"),
        pytest.param("[" * 5000, "is neither a number nor JSON", id="deep"),
        pytest.param("[1]", "not an object", id="a list"),
        pytest.param('{"count": 1, "size": 2}', "unknown field 'size'", id="unknown field"),
        pytest.param("{}", f"count must be a number from 0 to {MAX_DEVICES}", id="no count"),
        pytest.param(str(MAX_DEVICES + 1), "count must be", id="too many"),
        pytest.param('{"count": true}', "count must be", id="not a number"),
        pytest.param('{"count": 1, "attributes": {"a": [1]}}', "attributes.a must be", id="attribute"),
        pytest.param(f'{{"count": 1, "attributes": {{"a": {2**70}}}}}', "attributes.a must be", id="large attribute"),
        pytest.param('{"count": 1, "capacity": {"memory": "much"}}', "capacity.memory: ", id="capacity"),
        pytest.param('{"count": 1, "capacity": 3}', "capacity must be an object", id="not an object"),
    ],
)
def test_invalid_description_is_one_event_and_keeps_the_slices(text: str, error: str) -> None:
    actions: list[Action] = reconcile(node(text), stored(node("2")))
    (event,) = actions
    assert isinstance(event, RecordAction)
    assert (event.reason, event.kind) == ("InvalidDevices", "Warning")
    assert event.message.startswith(GPU)
    assert error in event.message


def test_names_of_slices_have_the_length_of_a_name() -> None:
    made = stored(node("300", name="n" * 250))
    names = {each["metadata"]["name"] for each in made}
    assert (len(names), max(map(len, names)) <= 253) == (3, True)
