"""ControllerRevisions keep the templates of a StatefulSet or DaemonSet for rollout and undo."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.workloads.actions import Create, Delete, Patch
from pyscheduler.embedded.workloads.revisions import keep_history, revision_name, template_of
from tests.unit.workloads.builders import Json, workload


def owner(**spec: Any) -> Json:
    return workload("DaemonSet", "d", **spec)


def revision(name: str, number: int) -> Json:
    template = {"$patch": "replace", "spec": {"name": name}}
    meta = {"name": name, "namespace": "default", "uid": name}
    return {"metadata": meta, "data": {"spec": {"template": template}}, "revision": number}


def test_new_template_gets_the_next_revision() -> None:
    name, actions = keep_history(owner(), [revision("d-a", 4)], ["d-a"])
    (create,) = actions
    assert isinstance(create, Create)
    assert (name, create.obj["metadata"]["name"], create.obj["revision"]) == (name, name, 5)
    assert create.obj["data"]["spec"]["template"]["$patch"] == "replace"
    assert create.obj["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"


@pytest.mark.parametrize(("number", "patched"), [(7, []), (3, [{"revision": 8}])])
def test_template_that_is_back_becomes_the_newest(number: int, patched: list[Json]) -> None:
    present = [revision(revision_name(owner()), number), revision("d-a", 7 if number == 3 else 1)]
    _, actions = keep_history(owner(), present, ["d-a"])
    assert [action.patch for action in actions if isinstance(action, Patch)] == patched
    assert not any(isinstance(action, Create) for action in actions)


def test_oldest_unused_revisions_are_deleted_beyond_the_limit() -> None:
    present = [revision(f"d-{letter}", number) for number, letter in enumerate("abcd", 1)]
    _, actions = keep_history(owner(revisionHistoryLimit=1), present, ["d-a"])
    assert [action.key[1] for action in actions if isinstance(action, Delete)] == ["d-b", "d-c"]


def test_template_of_a_revision_has_no_directive() -> None:
    assert template_of("d-a", [revision("d-a", 1)]) == {"spec": {"name": "d-a"}}
    assert template_of("d-b", [revision("d-a", 1)]) is None
