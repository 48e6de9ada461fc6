"""Validation of plugin classes: each error is one line with class, method and remedy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.api import (
    FilterPlugin,
    NodeFields,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
)
from pyscheduler.config.plugin_class import ATTRIBUTES, InvalidPluginClass, check_class
from pyscheduler.core.framework.registry import POINTS
from pyscheduler.intree import (
    PLUGINS,
    DefaultPreemption,
    DynamicResources,
    GangScheduling,
    NodeName,
    NodeResourcesFit,
    SchedulingGates,
    TaintToleration,
)


def plugin_class(*bases: type, **members: Any) -> type:
    """Return a plugin class with these members."""
    return type("Mine", bases, {"name": "Mine", "__module__": "mine", **members})


def fits(self: Any, cycle: Any, pod: Any, node: Any) -> None:
    return None


async def async_filter(self: Any, cycle: Any, pod: Any, node: Any) -> None:
    return None


async def acts(self: Any, cycle: Any, pod: Any, node_name: Any, api: Any) -> None:
    return None


async def yields_while_it_acts(self: Any, cycle: Any, pod: Any, node_name: Any, api: Any) -> Any:
    yield None


def keyword_only(self: Any, cycle: Any, *, pod: Any = None, node: Any = None) -> None:
    return None


def sync_pre_bind(self: Any, cycle: Any, pod: Any, node_name: Any, api: Any) -> None:
    return None


def too_few(self: Any, pod: Any, node: Any) -> None:
    return None


def too_many(self: Any, cycle: Any, pod: Any, node: Any, zone: Any) -> None:
    return None


def yields(self: Any, cycle: Any, pod: Any, node: Any) -> Any:
    yield None


def no_arguments(self: Any) -> None:
    return None


def gates(self: Any, pod: Any) -> None:
    return None


def diagnoses(self: Any, cycle: Any, pod: Any, diagnosis: Any) -> None:
    return None


def for_all(self: Any, cycle: Any, pod: Any, nodes: Any) -> None:
    return None


def all_fields(self: Any, group: Any) -> NodeFields:
    return NodeFields.ALL


def helper(self: Any) -> None:
    return None


def forwards(self: Any, *args: Any, **kwargs: Any) -> Any:
    return fits(self, *args, **kwargs)


REJECTED = [
    (
        plugin_class(FilterPlugin, filter=too_few),
        "filter(self, pod, node) has the wrong parameters, expected filter(self, cycle, pod, node)",
    ),
    (
        plugin_class(FilterPlugin, filter=too_many),
        "filter(self, cycle, pod, node, zone) has the wrong parameters, expected filter(self, cycle, pod, node)",
    ),
    (
        plugin_class(FilterPlugin, filter=fits, filter_all=too_few),
        "filter_all(self, pod, node) has the wrong parameters, expected filter_all(self, cycle, pod, nodes)",
    ),
    (
        plugin_class(FilterPlugin, filter=fits, __init__=no_arguments),
        "__init__(self) has the wrong parameters, expected __init__(self, args, handle)",
    ),
    (
        plugin_class(FilterPlugin, filter=async_filter),
        "filter is declared async def, expected def: it runs in the scheduling cycle and must not await",
    ),
    (
        plugin_class(ScorePlugin, score=async_filter),
        "score is declared async def, expected def: it runs in the scheduling cycle and must not await",
    ),
    (
        plugin_class(PreBindPlugin, pre_bind=sync_pre_bind),
        "pre_bind is declared def, expected async def: it runs in the binding cycle",
    ),
    (
        plugin_class(PreBindPlugin, pre_bind=yields_while_it_acts),
        "pre_bind contains a yield, expected an async def that returns its result",
    ),
    (
        plugin_class(FilterPlugin, filter=keyword_only),
        "filter(self, cycle, *, pod, node) has the wrong parameters, expected filter(self, cycle, pod, node)",
    ),
    (plugin_class(FilterPlugin, filter=yields), "filter is a generator, expected a method that returns its result"),
    (
        plugin_class(FilterPlugin, filter=fits, reads="OWN_NODE_AND_PODS"),
        "reads is 'OWN_NODE_AND_PODS', expected a member of Reads such as Reads.OWN_NODE",
    ),
    (plugin_class(ScorePlugin, score=fits, weight=0), "weight is 0, expected a whole number above 0"),
    (plugin_class(FilterPlugin, filter=fits, indexes="app"), "indexes is 'app', expected a tuple of label keys"),
    (
        plugin_class(FilterPlugin, filter=fits, watches=("licences",)),
        "watches is ('licences',), expected a tuple of ResourceKinds",
    ),
    (
        plugin_class(ScorePlugin, score=fits, normalise=helper),
        "normalise is never called: it looks like a misspelt normalize; prefix the name of a helper with _",
    ),
    (
        plugin_class(FilterPlugin, filter=fits, preFilter=helper),
        "preFilter is never called: it looks like a misspelt pre_filter; prefix the name of a helper with _",
    ),
    (
        plugin_class(FilterPlugin, filter=fits, score=fits),
        "score is never called: inherit ScorePlugin too, or prefix the name of a helper with _",
    ),
    (
        plugin_class(DynamicResources, reserve=fits),
        "reserve is overridden, but skip_includes_reserve is inherited from DynamicResources: define it here too",
    ),
    (
        plugin_class(DynamicResources, pre_bind_pre_flight=fits),
        "pre_bind_pre_flight is overridden, but skip_includes_reserve is inherited from DynamicResources: define it",
    ),
    (
        plugin_class(SchedulingGates, pre_enqueue=gates),
        "pre_enqueue is overridden, but pre_enqueue_field is inherited from SchedulingGates: define it here too",
    ),
    (
        plugin_class(DynamicResources, pre_enqueue=gates, pre_enqueue_field=""),
        "pre_enqueue is overridden, but gate_object is inherited from DynamicResources: define it here too",
    ),
    (
        plugin_class(GangScheduling, pre_enqueue=gates),
        "pre_enqueue is overridden, but gate_key is inherited from GangScheduling: define it here too",
    ),
    (
        plugin_class(DefaultPreemption, post_filter=diagnoses),
        "post_filter is overridden, but is_repeatable is inherited from DefaultPreemption: define it here too",
    ),
    (
        plugin_class(TaintToleration, score=fits),
        "score is overridden, but node_fields is inherited from TaintToleration: define it here too",
    ),
    (
        plugin_class(NodeName, filter=fits),
        "filter is overridden, but node_fields is inherited from NodeName: define it here too",
    ),
    (
        plugin_class(NodeResourcesFit, filter_all=for_all, node_fields=NodeFields.ALL),
        "filter_all is overridden, but node_fields_of is inherited from NodeResourcesFit: define it here too",
    ),
    (
        plugin_class(FilterPlugin, filter=fits, node_fields="labels"),
        "node_fields is 'labels', expected a combination of NodeFields",
    ),
    (
        plugin_class(SchedulingGates, pre_enqueue=gates, pre_enqueue_field="schedulingGates"),
        "pre_enqueue_field is 'schedulingGates', expected a field of `pod.spec` or \"\"",
    ),
    (
        plugin_class(FilterPlugin, filter=too_few, reads=2),
        "reads is 2, expected a member of Reads such as Reads.OWN_NODE; filter(self, pod, node) has the wrong",
    ),
]


@pytest.mark.parametrize(("cls", "text"), REJECTED, ids=[text for _, text in REJECTED])
def test_invalid_class_is_rejected_with_a_remedy(cls: type, text: str) -> None:
    with pytest.raises(InvalidPluginClass) as error:
        check_class(cls)
    assert str(error.value).startswith(f"mine:Mine: {text}")
    assert "\n" not in str(error.value)


ACCEPTED: list[Callable[[], type]] = [
    lambda: plugin_class(FilterPlugin, filter=fits, reads=Reads.OWN_NODE_AND_PODS, _filters=helper),
    lambda: plugin_class(FilterPlugin, filter=forwards),
    lambda: plugin_class(PreBindPlugin, pre_bind=forwards),
    lambda: plugin_class(FilterPlugin, filter=staticmethod(lambda cycle, pod, node: None)),
    lambda: plugin_class(FilterPlugin, filter=classmethod(fits)),
    lambda: plugin_class(FilterPlugin, filter=fits, reads=property(lambda _: Reads.OWN_NODE)),
    lambda: plugin_class(FilterPlugin, filter=fits, gpus_of=helper),
    lambda: plugin_class(DynamicResources, reserve=fits, skip_includes_reserve=False),
    lambda: plugin_class(SchedulingGates, pre_enqueue=gates, pre_enqueue_field="scheduling_gates"),
    lambda: plugin_class(DynamicResources, filter=fits, node_fields_of=all_fields),
    lambda: plugin_class(TaintToleration, score=fits, node_fields=NodeFields.ALL),
    lambda: plugin_class(TaintToleration, score=fits, node_fields_of=all_fields),
    lambda: plugin_class(ReservePlugin, PermitPlugin, reserve=fits, unreserve=fits, permit=fits),
]


@pytest.mark.parametrize("make", ACCEPTED)
def test_valid_class_is_accepted(make: Callable[[], type]) -> None:
    assert check_class(make()) == "Mine"


def test_every_attribute_of_the_plugin_interface_is_checked() -> None:
    bases: list[type[Plugin]] = [Plugin, *POINTS.values()]
    names = {name for base in bases for name in inspect.get_annotations(base)}
    assert names - set(ATTRIBUTES) == {"name", "Args"}  # checked by themselves


@pytest.mark.parametrize("cls", PLUGINS)
def test_in_tree_plugins_are_accepted(cls: type) -> None:
    assert check_class(cls)
