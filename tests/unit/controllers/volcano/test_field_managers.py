"""Other writers of a Queue's status, as its managedFields list them."""

from __future__ import annotations

from typing import Any

from pyscheduler.controllers.volcano.field_managers import OtherWrite, field_manager, last_other_write

US = field_manager(["volcano", "pyscheduler"])
Json = dict[str, Any]


def entry(manager: str, second: int, *fields: str, subresource: str = "status") -> Json:
    owned: Json = {"f:status": {f"f:{name}": {} for name in fields}}
    time = f"1970-01-01T00:00:{second:02}Z"
    return {"manager": manager, "operation": "Update", "subresource": subresource, "time": time, "fieldsV1": owned}


def last(*entries: Json) -> OtherWrite | None:
    return last_other_write({"metadata": {"managedFields": list(entries)}}, US)


def test_last_write_of_counts_by_another_manager_is_found() -> None:
    volcano = (entry("vc-controller-manager", 7, "state", "pending"), entry("vc-scheduler", 5, "allocated"))
    assert last(entry(US, 9, "allocated"), *volcano) == OtherWrite("vc-controller-manager", 7.0)


def test_users_who_close_a_queue_and_owners_of_other_fields_write_no_counts() -> None:
    assert last(entry("kubectl-patch", 5, "state"), entry("helm", 5, "allocated", subresource="")) is None
    assert last_other_write({"metadata": {}}, US) is None
    assert last({"manager": "x", "subresource": "status"}) is None


def test_schedulers_of_other_names_are_other_managers_of_this_program() -> None:
    other = last(entry(field_manager(["batch"]), 1, "running"))
    assert other is not None
    assert other.is_of_this_program
    assert not OtherWrite("vc-scheduler", 1.0).is_of_this_program


def test_name_of_a_field_manager_is_short_enough_for_the_api_server() -> None:
    assert US == "pyscheduler/pyscheduler,volcano"
    assert len(field_manager(["x" * 200])) == 128
