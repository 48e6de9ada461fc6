"""Plugin classes that cannot work are refused when they are loaded, in one line that names class, method and remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.api import FilterPlugin, PermitPlugin, PreBindPlugin, Reads, ReservePlugin, ScorePlugin
from pyscheduler.config.plugin_class import InvalidPluginClass, check_class
from pyscheduler.intree import PLUGINS


def made(*bases: type, **members: Any) -> type:
    """A plugin of that name with these members."""
    return type("Mine", bases, {"name": "Mine", "__module__": "mine", **members})


def fits(self: Any, cycle: Any, pod: Any, node: Any) -> None:
    return None


async def waits(self: Any, cycle: Any, pod: Any, node: Any) -> None:
    return None


async def acts(self: Any, cycle: Any, pod: Any, node_name: Any, api: Any) -> None:
    return None


def acts_at_once(self: Any, cycle: Any, pod: Any, node_name: Any, api: Any) -> None:
    return None


def too_few(self: Any, pod: Any, node: Any) -> None:
    return None


def too_many(self: Any, cycle: Any, pod: Any, node: Any, zone: Any) -> None:
    return None


def yields(self: Any, cycle: Any, pod: Any, node: Any) -> Any:
    yield None


def no_arguments(self: Any) -> None:
    return None


def helper(self: Any) -> None:
    return None


def passes_on(self: Any, *args: Any, **kwargs: Any) -> Any:
    return fits(self, *args, **kwargs)


REFUSED = [
    (
        made(FilterPlugin, filter=too_few),
        "filter(self, pod, node) has the wrong parameters, expected filter(self, cycle, pod, node)",
    ),
    (
        made(FilterPlugin, filter=too_many),
        "filter(self, cycle, pod, node, zone) has the wrong parameters, expected filter(self, cycle, pod, node)",
    ),
    (
        made(FilterPlugin, filter=fits, filter_all=too_few),
        "filter_all(self, pod, node) has the wrong parameters, expected filter_all(self, cycle, pod, nodes)",
    ),
    (
        made(FilterPlugin, filter=fits, __init__=no_arguments),
        "__init__(self) has the wrong parameters, expected __init__(self, args, handle)",
    ),
    (made(FilterPlugin, filter=waits), "filter is declared async def, expected def: it runs in the scheduling cycle and must not await"),
    (made(ScorePlugin, score=waits), "score is declared async def, expected def: it runs in the scheduling cycle and must not await"),
    (
        made(PreBindPlugin, pre_bind=acts_at_once),
        "pre_bind is declared def, expected async def: it runs in the binding cycle",
    ),
    (made(FilterPlugin, filter=yields), "filter is a generator, expected a method that returns its result"),
    (
        made(FilterPlugin, filter=fits, reads="OWN_NODE_AND_PODS"),
        "reads is 'OWN_NODE_AND_PODS', expected a member of Reads such as Reads.OWN_NODE",
    ),
    (made(ScorePlugin, score=fits, weight=0), "weight is 0, expected a whole number above 0"),
    (made(FilterPlugin, filter=fits, indexes="app"), "indexes is 'app', expected a tuple of label keys"),
    (
        made(FilterPlugin, filter=fits, watches=("licences",)),
        "watches is ('licences',), expected a tuple of ResourceKinds",
    ),
    (
        made(ScorePlugin, score=fits, normalise=helper),
        "normalise is never called: it looks like a misspelt normalize; prefix the name of a helper with _",
    ),
    (
        made(FilterPlugin, filter=fits, preFilter=helper),
        "preFilter is never called: it looks like a misspelt pre_filter; prefix the name of a helper with _",
    ),
    (
        made(FilterPlugin, filter=fits, score=fits),
        "score is never called: inherit ScorePlugin too, or prefix the name of a helper with _",
    ),
    (
        made(FilterPlugin, filter=too_few, reads=2),
        "reads is 2, expected a member of Reads such as Reads.OWN_NODE; filter(self, pod, node) has the wrong",
    ),
]


@pytest.mark.parametrize(("cls", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_class_that_cannot_work_is_refused_with_its_remedy(cls: type, text: str) -> None:
    with pytest.raises(InvalidPluginClass) as refused:
        check_class(cls)
    assert str(refused.value).startswith(f"mine:Mine: {text}")
    assert "\n" not in str(refused.value)


ACCEPTED: list[Callable[[], type]] = [
    lambda: made(FilterPlugin, filter=fits, reads=Reads.OWN_NODE_AND_PODS, _filters=helper),
    lambda: made(FilterPlugin, filter=passes_on),
    lambda: made(PreBindPlugin, pre_bind=passes_on),
    lambda: made(FilterPlugin, filter=staticmethod(lambda cycle, pod, node: None)),
    lambda: made(FilterPlugin, filter=classmethod(fits)),
    lambda: made(FilterPlugin, filter=fits, reads=property(lambda _: Reads.OWN_NODE)),
    lambda: made(FilterPlugin, filter=fits, gpus_of=helper),
    lambda: made(ReservePlugin, PermitPlugin, reserve=fits, unreserve=fits, permit=fits),
]


@pytest.mark.parametrize("make", ACCEPTED)
def test_class_that_works_is_accepted(make: Callable[[], type]) -> None:
    assert check_class(make()) == "Mine"


@pytest.mark.parametrize("cls", PLUGINS)
def test_kube_schedulers_own_plugins_are_accepted(cls: type) -> None:
    assert check_class(cls)
