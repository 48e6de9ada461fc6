"""A changed disruption budget costs little, however many budgets and kinds of pods a namespace has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.api import Selector
from pyscheduler.intree.preemption import budgets as module
from pyscheduler.intree.preemption.budgets import MOST_BUDGETS, Budgets
from pyscheduler.testing import pod

BUDGETS = 200
Selectors = Callable[[int], dict[str, Any]]


def budget(selector: dict[str, Any], allowed: int) -> dict[str, Any]:
    return {"spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed}}


class Calls:
    """Number of selectors that were compiled, and of labels that were compared with one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compiled = self.matched = 0
        compiled, matches = module._compile, Selector.matches

        def count_compiled(source: Any) -> Any:
            self.compiled += 1
            return compiled(source)

        def count_match(selector: Selector, labels: Any) -> bool:
            self.matched += 1
            return matches(selector, labels)

        monkeypatch.setattr(module, "_compile", count_compiled)
        monkeypatch.setattr(Selector, "matches", count_match)


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(lambda i: {"matchLabels": {"app": f"a{i}"}}, id="one for each app"),
        pytest.param(lambda i: {"matchLabels": {"tier": "web", "app": f"a{i}"}}, id="with a label that all have"),
        pytest.param(lambda i: {"matchLabels": {"tier": "web"}}, id="each covers all"),
        pytest.param(lambda i: {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, id="no value named"),
    ],
)
def test_change_of_a_budget_does_not_match_all_others_with_all_pods(
    selector: Selectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = {("default", f"b{i:03}"): budget(selector(i), i % 3) for i in range(BUDGETS)}
    pods = [pod(f"p{i}").label("tier", "web").label("app", f"a{i}").build() for i in range(BUDGETS)]
    budgets = Budgets(objects)
    budgets.refresh(1)
    budgets.split(pods)
    calls = Calls(monkeypatch)
    objects["default", "b007"] = budget(selector(7), 5)
    budgets.refresh(2)
    budgets.split(pods)
    assert calls.compiled == 1
    assert calls.matched <= 2 * MOST_BUDGETS * len(pods)  # to find the budgets, and to count the pods in them


def test_change_of_a_budget_leaves_other_namespaces_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    web = {"matchLabels": {"app": "web"}}
    objects = {(namespace, "b"): budget(web, 0) for namespace in "ab"}
    pods = [pod("web").namespace(namespace).label("app", "web").build() for namespace in "ab"]
    budgets = Budgets(objects)
    budgets.refresh(1)
    budgets.split(pods)
    calls = Calls(monkeypatch)
    objects["a", "b"] = budget(web, 1)
    budgets.refresh(2)
    assert budgets.split(pods) == (pods[1:], pods[:1])
    assert (calls.compiled, calls.matched) == (1, 1 + len(pods))  # to find the budget of `a`, and to count both pods


def test_changed_and_deleted_budgets_take_effect() -> None:
    web = pod("web").label("app", "web").build()
    objects = {("default", "b"): budget({"matchLabels": {"app": "web"}}, 0)}
    budgets = Budgets(objects)
    violating = []
    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: objects.update({("default", "b"): budget({"matchLabels": {"app": "web"}}, 1)}),
        lambda: objects.update({("default", "c"): budget({"matchLabels": {"app": "web"}}, 0)}),
        lambda: objects.update({("default", "c"): budget({"matchLabels": {"app": "other"}}, 0)}),
        objects.clear,
    ]
    for version, change in enumerate(changes):
        change()
        budgets.refresh(version)
        violating.append(bool(budgets.split([web])[0]))
    assert violating == [True, False, True, False, False]
