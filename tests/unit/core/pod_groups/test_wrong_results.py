"""Wrong results of PodGroup and Quota plugins are failures of the plugin, with the method and its valid types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

import pytest

from pyscheduler.api import Handle, NoArgs, PodGroup, PodGroupKey, QuotaPlugin, Rejection
from pyscheduler.core.framework.result_checks import QUOTA_RESULTS
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.manager import PodGroupManager
from tests.unit.core.pod_groups.group_fixture import KEY, LabelGroups, member

OTHER = PodGroup(PodGroupKey("default", "b"), 1)


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
    ("claims_of", {"c": {"pods": "1"}}, "dict, expected a mapping of names to mappings of resources to ints"),
    ("changed_claims", None, "None, expected a mapping of names to mappings of resources to ints"),
    ("changes_queues", None, "None, expected True or False"),
    ("next_queue", ["q"], "list, expected a str"),
    ("group_share", "high", "str, expected a number"),
    ("group_share", float("nan"), "nan (float), expected a number"),
    ("has_strict_order", "fifo", "str, expected True or False"),
    ("unavailable", False, "bool, expected a str"),
    ("exceeded", None, "None, expected a str"),
    ("exceeded", Rejection("full"), "Rejection, expected a str"),
    ("take_ended_claims", 1, "1 (int), expected True or False"),
    ("exceeded_limit", True, "bool, expected a str"),
    ("min_run_seconds", 60, "60 (int), expected a sequence of numbers"),
    ("min_run_seconds", [1, 2, 3], "3 times, expected one for each of 1 groups, or none"),
    ("seconds_of_turns", [None], "list, expected a sequence of numbers"),
    ("seconds_of_turns", [1, 2], "2 times, expected one for each of 1 groups, or none"),
    ("seconds_until_turn", "soon", "str, expected a number or None"),
    ("is_guaranteed", None, "None, expected True or False"),
    ("over_quota", ["q"], "list, expected a mapping of queues to numbers"),
    ("surplus", None, "None, expected a sequence of EvictionUnits"),
    ("may_preempt", None, "None, expected True or False"),
    ("is_within_share", None, "None, expected True or False"),
    ("may_reclaim", "yes", "str, expected True or False"),
    ("may_reclaim_from", 0, "0 (int), expected True or False"),
    ("reclaim", None, "None, expected EvictionUnits or a str"),
    ("reclaim", [OTHER], "list, expected EvictionUnits or a str"),
]


@pytest.mark.parametrize(("method", "result", "text"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_result_of_a_quota_method_is_its_failure(method: str, result: object, text: str) -> None:
    manager, failures = manager_with(Open(**{method: result}))
    declared = getattr(QuotaPlugin, method)
    arguments: list[Any] = [OTHER] * (len(inspect.signature(declared).parameters) - 1)
    if method in ("min_run_seconds", "seconds_of_turns"):
        arguments[1] = [OTHER]
    assert manager.call_quota("default", declared, *arguments) == "default"
    assert failures.texts == [f"Open Quota: {method} returned {text}"]


def test_every_result_of_a_quota_plugin_is_checked() -> None:
    methods = {name: inspect.signature(method) for name, method in vars(QuotaPlugin).items() if callable(method)}
    with_results = {name for name, signature in methods.items() if signature.return_annotation != "None"}
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
        "LabelGroups PodGroup: <lambda> returned str, expected a PodGroupKey or None",
    ]


def test_group_is_not_admitted_if_the_quota_returns_none() -> None:
    manager, failures = manager_with(Open(exceeded=None))
    group = manager.requirements(KEY)
    assert isinstance(group, PodGroup)
    assert manager.exceeded(group, {"cpu": 1}) == "plugin Open failed"
    assert failures.texts == ["Open Quota: exceeded returned None, expected a str"]
