"""Wrong results of PodGroup and Quota plugins are failures of the plugin, with the method and its valid types."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from pyscheduler.api import Handle, NoArgs, PodGroup, PodGroupKey, QuotaPlugin, Rejection, TopologyConstraint
from pyscheduler.api.pod_group import EvictionRank, EvictionUnit
from pyscheduler.api.steps import exhaust
from pyscheduler.core.framework.result_checks import QUOTA_RESULTS
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.manager import PodGroupManager
from tests.unit.core.pod_groups.group_fixture import KEY, LabelGroups, member

OTHER = PodGroup(PodGroupKey("default", "b"), 1)
UNIT = EvictionUnit((), 0, EvictionRank.GROUP, math.inf)


class Open(QuotaPlugin):
    """Allows everything; a test replaces the result of a method."""

    name = "Open"

    def __init__(self, **results: Any) -> None:
        super().__init__(NoArgs(), cast(Handle, None))
        for method, result in results.items():
            setattr(self, method, _returning(method, result))

    def queue_of(self, pod: Any) -> str:
        return "q"

    def set_usage(self, group: Any, allocated: Any, pending: Any) -> None: ...

    def remove_usage(self, key: Any) -> None: ...

    def exceeded(self, group: Any, request: Any) -> str:
        return ""

    def may_preempt(self, group: Any, other: Any) -> bool:
        return True

    def reclaim(self, group: Any, request: Any, free: Any, units: Any) -> Any:
        return ()


def _returning(name: str, result: object) -> Callable[..., object]:
    def method(*_: object) -> object:
        return result

    method.__name__ = name
    return method


class Failures(Instrument):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        self.texts.append(f"{plugin} {point}: {error}")


def manager_with(quota: QuotaPlugin) -> tuple[PodGroupManager, Failures]:
    """Return the manager with a group of two pods."""
    failures = Failures()
    manager = PodGroupManager(failures)
    manager.use({"default-scheduler": LabelGroups()}, quota, (), ())
    for name in ("a", "b"):
        manager.set_pod(member(name).build())
    return manager, failures


WRONG = [
    ("queue_of", None, "None, expected a str"),
    ("queue_of_group", 3, "3 (int), expected a str"),
    ("accounts_of", "alice", "str, expected a sequence of strs"),
    ("accounts_of", [None], "list, expected a sequence of strs"),
    ("claims_of", {"c": {"pods": "1"}}, "dict, expected a mapping of names to mappings of resources to ints >= 0"),
    ("claims_of", {"c": {"pods": -1}}, "dict, expected a mapping of names to mappings of resources to ints >= 0"),
    ("changed_claims", None, "None, expected a mapping of names to mappings of resources to ints >= 0"),
    ("changes_queues", None, "None, expected True or False"),
    ("next_queue", ["q"], "list, expected a str"),
    ("group_share", "high", "str, expected a number >= 0"),
    ("group_share", float("nan"), "nan (float), expected a number >= 0"),
    ("has_strict_order", "fifo", "str, expected True or False"),
    ("unavailable", False, "bool, expected a str"),
    ("exceeded", None, "None, expected a str"),
    ("exceeded", Rejection("full"), "Rejection, expected a str"),
    ("take_ended_claims", 1, "1 (int), expected True or False"),
    ("exceeded_limit", True, "bool, expected a str"),
    ("min_run_seconds", 60, "60 (int), expected a sequence of numbers >= 0"),
    ("min_run_seconds", [1, 2, 3], "3 times, expected one for each of 1 groups, or none"),
    ("seconds_of_turns", [None], "list, expected a sequence of numbers >= 0"),
    ("seconds_of_turns", [1, 2], "2 times, expected one for each of 1 groups, or none"),
    ("seconds_until_turn", -1, "-1 (int), expected a number >= 0 or None"),
    ("seconds_until_turn", "soon", "str, expected a number >= 0 or None"),
    ("is_guaranteed", None, "None, expected True or False"),
    ("over_quota", ["q"], "list, expected a mapping of queues to numbers >= 0"),
    ("over_quota", {"q": -1.0}, "dict, expected a mapping of queues to numbers >= 0"),
    ("surplus", [UNIT], "an EvictionUnit that is not in `units`, expected some of those in `units`, each once"),
    ("surplus", None, "None, expected a sequence of EvictionUnits"),
    ("may_preempt", None, "None, expected True or False"),
    ("is_within_share", None, "None, expected True or False"),
    ("may_reclaim", "yes", "str, expected True or False"),
    ("may_reclaim_from", 0, "0 (int), expected True or False"),
    ("reclaim", None, "None, expected EvictionUnits or a str"),
    ("reclaim", [UNIT], "an EvictionUnit that is not in `units`, expected some of those in `units`, each once"),
    ("reclaim", [OTHER], "list, expected EvictionUnits or a str"),
]


@pytest.mark.parametrize(("method", "result", "text"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_result_of_a_quota_method_is_its_failure(method: str, result: object, text: str) -> None:
    manager, failures = manager_with(Open(**{method: result}))
    declared = getattr(QuotaPlugin, method)
    arguments: list[Any] = [OTHER] * (len(inspect.signature(declared).parameters) - 1)
    if method in ("min_run_seconds", "seconds_of_turns"):
        arguments[1] = [OTHER]
    elif method == "surplus":
        arguments[-1] = [(msgspec.structs.replace(UNIT), OTHER)]
    if method == "reclaim":
        units = [(msgspec.structs.replace(UNIT), OTHER)]
        assert exhaust(manager.reclaim(OTHER, {}, {}, units)) == "plugin Open failed"
    else:
        assert manager.call_quota("default", declared, *arguments) == "default"
    assert failures.texts == [f"Open Quota: {method} returned {text}"]


class InSteps(Open):
    def reclaim_steps(self, *_: Any) -> Any:
        yield
        return "of the steps"


class OfSubclass(InSteps):
    def reclaim(self, *_: Any) -> Any:
        return "of the subclass"


@pytest.mark.parametrize(("plugin", "result"), [(InSteps, "of the steps"), (OfSubclass, "of the subclass")])
def test_reclaim_of_a_subclass_replaces_steps_of_its_base_class(plugin: type[Open], result: str) -> None:
    manager, failures = manager_with(plugin())
    assert exhaust(manager.reclaim(OTHER, {}, {}, [])) == result
    assert failures.texts == []


@pytest.mark.parametrize("steps", [["a unit"], iter(["a unit"])], ids=["list", "iterator"])
def test_reclaim_steps_that_yield_units_give_none(steps: Any) -> None:
    plugin = InSteps()
    plugin.reclaim_steps = lambda *_: steps  # type: ignore[method-assign]
    manager, failures = manager_with(plugin)
    assert exhaust(manager.reclaim(OTHER, {}, {}, [])) == "plugin Open failed"
    assert len(failures.texts) == 1


def test_every_result_of_a_quota_plugin_is_checked() -> None:
    methods = {name: inspect.signature(method) for name, method in vars(QuotaPlugin).items() if callable(method)}
    with_results = {name for name, signature in methods.items() if signature.return_annotation != "None"}
    with_results.remove("reclaim_steps")  # its result is checked as that of `reclaim`
    assert with_results == set(QUOTA_RESULTS) == {method for method, _, _ in WRONG}


@pytest.mark.parametrize(
    ("requirements", "text"),
    [
        (None, "None, expected PodGroup or Rejection"),
        ({"minMember": 2}, "dict, expected PodGroup or Rejection"),
        (OTHER, f"the PodGroup {OTHER.key!r}, expected that with the key {KEY!r}"),
    ],
)
def test_group_with_a_wrong_result_of_pod_group_is_rejected(requirements: Any, text: str) -> None:
    failures, plugin = Failures(), LabelGroups()
    manager = PodGroupManager(failures)
    manager.use({"default-scheduler": plugin}, None, (), ())
    plugin.requirements = requirements
    manager.set_pod(member("a").build())
    assert manager.reason_to_wait(KEY, ()) == f"pod group default/a: plugin LabelGroups: pod_group returned {text}"
    assert failures.texts == [f"LabelGroups PodGroup: pod_group returned {text}"]


WRONG_FIELDS: list[tuple[str, object, str]] = [
    ("key", ("default", "a", ""), "a PodGroupKey, not tuple"),
    ("key", PodGroupKey("default", cast(Any, 7)), "a PodGroupKey of strs, not one with int"),
    ("min_count", "2", "an int, not str"),
    ("min_count_by_role", {"worker": "2"}, "a mapping of roles to ints, not one with str"),
    ("min_count_by_role", ["worker"], "a mapping of roles to ints, not list"),
    ("min_resources", {"cpu": 0.5}, "a mapping of resources to ints, not one with float"),
    ("min_resources", {7: 1}, "a mapping of resources to ints, not one with int"),
    ("priority", 1.5, "an int or None, not float"),
    ("may_preempt", None, "True or False, not NoneType"),
    ("disruption_mode", "Pod", "a DisruptionMode, not str"),
    ("queue", None, "a str, not NoneType"),
    ("topology", "zone", "a tuple of TopologyConstraints, not str"),
    ("topology", ("zone",), "a tuple of TopologyConstraints, not one with str"),
    ("stale_grace_seconds", "60", "a number or None, not str"),
    ("created", 0, "a str, not int"),
    ("uid", None, "a str, not NoneType"),
    ("kind", "PodGroup", "a ResourceKind or None, not str"),
    ("condition_type", None, "a str, not NoneType"),
    ("failure_condition_type", False, "a str, not bool"),
    ("subgroups", None, "a tuple of PodGroups, not NoneType"),
    ("subgroups", (KEY,), "a tuple of PodGroups, not one with PodGroupKey"),
    ("min_subgroups", None, "an int, not NoneType"),
    ("subgroup_of", {"a": KEY}, "a function or None, not dict"),
    ("error", None, "a str, not NoneType"),
    ("has_kubernetes_messages", 1, "True or False, not int"),
    ("accounts", "alice", "a tuple of strs, not str"),
    ("accounts", (None,), "a tuple of strs, not one with NoneType"),
]


@pytest.mark.parametrize(("field", "value", "text"), WRONG_FIELDS)
def test_group_with_a_wrong_field_is_rejected_with_plugin_and_field(field: str, value: Any, text: str) -> None:
    failures, plugin = Failures(), LabelGroups()
    manager = PodGroupManager(failures)
    manager.use({"default-scheduler": plugin}, None, (), ())
    fields: dict[str, Any] = {"key": KEY, "min_count": 1, field: value}
    plugin.pod_group = lambda key, members: PodGroup(**fields)  # type: ignore[method-assign]
    manager.set_pod(member("a").build())
    message = f"TypeError: PodGroup: {field} must be {text}"
    assert manager.reason_to_wait(KEY, ()) == f'pod group default/a: running PodGroup plugin "LabelGroups": {message}'
    assert failures.texts == [f"LabelGroups PodGroup: PodGroup: {field} must be {text}"]


def test_every_field_of_a_group_is_checked() -> None:
    assert {field for field, _, _ in WRONG_FIELDS} == set(PodGroup.__struct_fields__)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"key": None}, "key must be a str, not NoneType"),
        ({"key": "zone", "required": "no"}, "required must be True or False, not str"),
        ({"key": "zone", "domains": "zone"}, "domains must be a function or None, not str"),
    ],
)
def test_topology_constraint_with_a_wrong_field_names_it(values: Any, text: str) -> None:
    with pytest.raises(TypeError, match=f"TopologyConstraint: {text}"):
        TopologyConstraint(**values)


def test_pod_in_a_group_without_a_name_is_a_failure_of_the_plugin() -> None:
    failures, plugin = Failures(), LabelGroups()
    manager = PodGroupManager(failures)
    manager.use({"default-scheduler": plugin}, None, (), ())
    plugin.group_of = lambda pod: PodGroupKey("default", cast(Any, ["a"]))  # type: ignore[method-assign]
    manager.set_pod(member("a").build())
    returned = "PodGroupKey(namespace='default', name=['a'], api='')"
    assert failures.texts == [
        f"LabelGroups PodGroup: <lambda> returned {returned}, expected a PodGroupKey of strs or None"
    ]


def test_wrong_role_or_subgroup_of_a_pod_is_a_failure_of_the_plugin() -> None:
    failures, plugin = Failures(), LabelGroups()
    manager = PodGroupManager(failures)
    manager.use({"default-scheduler": plugin}, None, (), ())
    first = PodGroup(PodGroupKey("default", "a", "first"), 1)
    plugin.requirements = PodGroup(KEY, 1, subgroups=(first,), subgroup_of=lambda pod: cast(Any, pod.name))
    plugin.role_of = lambda pod: cast(Any, None)  # type: ignore[method-assign]
    pod = member("a").build()
    manager.set_pod(pod)
    assert manager.role_of(pod) == ""
    manager.reason_to_wait(KEY, [pod])
    assert failures.texts == [
        "LabelGroups PodGroup: <lambda> returned None, expected a str",
        "LabelGroups PodGroup: <lambda> returned str, expected a PodGroupKey of strs or None",
    ]


def test_group_is_not_admitted_if_the_quota_returns_none() -> None:
    manager, failures = manager_with(Open(exceeded=None))
    group = manager.requirements(KEY)
    assert isinstance(group, PodGroup)
    assert manager.exceeded(group, {"cpu": 1}) == "plugin Open failed"
    assert failures.texts == ["Open Quota: exceeded returned None, expected a str"]
