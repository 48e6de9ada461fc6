"""Other writers of a Queue's status, as its managedFields list them."""

from __future__ import annotations

from typing import Any

from pyscheduler.controllers.volcano.field_managers import OtherWrite, field_manager, last_other_write

MANAGER = field_manager(["volcano", "pyscheduler"])
Json = dict[str, Any]


def entry(manager: str, second: int, *fields: str, subresource: str = "status") -> Json:
    owned: Json = {"f:status": {f"f:{name}": {} for name in fields}}
    time = f"1970-01-01T00:00:{second:02}Z"
    return {"manager": manager, "operation": "Update", "subresource": subresource, "time": time, "fieldsV1": owned}


def last(*entries: Json) -> OtherWrite | None:
    return last_other_write({"metadata": {"managedFields": list(entries)}}, MANAGER)


def test_last_write_of_counts_by_another_manager_is_found() -> None:
    volcano = (entry("vc-controller-manager", 7, "state", "pending"), entry("vc-scheduler", 5, "allocated"))
    assert last(entry(MANAGER, 9, "allocated"), *volcano) == OtherWrite("vc-controller-manager", 7.0)


def test_writes_of_the_state_or_of_other_fields_are_ignored() -> None:
    assert last(entry("kubectl-patch", 5, "state"), entry("helm", 5, "allocated", subresource="")) is None
    assert last_other_write({"metadata": {}}, MANAGER) is None
    assert last({"manager": "x", "subresource": "status"}) is None


def test_pyscheduler_with_other_profiles_is_another_manager() -> None:
    other = last(entry(field_manager(["batch", "pyscheduler"]), 1, "running"))
    assert other is not None
    assert other.is_of_one_of(["pyscheduler"])
    assert not other.is_of_one_of(["volcano"])
    assert not OtherWrite("vc-scheduler", 1.0).is_of_one_of(["volcano"])


def test_writes_of_versions_without_a_field_manager_are_own_ones() -> None:
    assert last(entry("pyscheduler", 5, "running")) is None


def test_name_of_a_field_manager_is_short_enough_for_the_api_server() -> None:
    assert MANAGER == "pyscheduler/pyscheduler,volcano"
    assert len(field_manager(["x" * 200])) == 128
