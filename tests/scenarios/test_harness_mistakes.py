"""Mistakes of a test's author: each is one error that names the object, and none looks like a result."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.api import FilterPlugin, PreBindPlugin
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod

SECOND_SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: pyscheduler}]
"""


class Raises(FilterPlugin):
    """Fails as a plugin with a bug does."""

    name = "Raises"

    def filter(self, cycle: Any, pod: Any, node: Any) -> None:
        node.labels["missing"]


class RaisesInPreBind(PreBindPlugin):
    name = "RaisesInPreBind"

    async def pre_bind(self, cycle: Any, pod: Any, node_name: str, api: Any) -> None:
        raise KeyError("missing")


class ReturnsBool(FilterPlugin):
    """Returns what a predicate would."""

    name = "ReturnsBool"

    def filter(self, cycle: Any, pod: Any, node: Any) -> Any:
        return True


def enabling(cls: type[FilterPlugin] | type[PreBindPlugin], point: str = "filter") -> Harness:
    """Return a harness with a plugin of this module."""
    harness = Harness(f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{plugins: {{{point}: {{enabled: [{{name: "{__name__}:{cls.name}"}}]}}}}}}]
""")
    harness.add(node("n1"), pod("train"))
    harness.run()
    return harness


def test_pod_builder_without_a_scheduler_is_scheduled_by_the_only_profile() -> None:
    harness = Harness(SECOND_SCHEDULER)
    harness.add(node("n1"), pod("a"), pod("b").scheduler("another"))
    harness.run()
    assert harness.assignments == {"a": "n1"}


def test_default_scheduler_of_a_builder_is_kept_if_a_profile_has_its_name() -> None:
    harness = Harness(
        SECOND_SCHEDULER.replace("[{", "[{schedulerName: batch}, {").replace("pyscheduler}", "default-scheduler}")
    )
    harness.add(pod("a"))
    assert harness.pods["default/a"].manifest["spec"]["schedulerName"] == "default-scheduler"


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda harness: harness.pending_message("tain"), id="pending_message"),
        pytest.param(lambda harness: harness.events("tain"), id="events"),
        pytest.param(lambda harness: harness.nominated("tain"), id="nominated"),
    ],
)
def test_result_of_a_pod_that_was_never_added_is_an_error(read: Callable[[Harness], object]) -> None:
    harness = Harness()
    harness.add(pod("train"))
    with pytest.raises(ValueError, match=re.escape("no object named 'tain' was added; did you mean 'train'?")):
        read(harness)


def test_pod_unlike_all_others_is_an_error_without_a_guess() -> None:
    with pytest.raises(ValueError, match=r"^no object named 'train' was added$"):
        Harness().pending_message("train")


def test_deleted_pod_has_its_last_results() -> None:
    harness = Harness()
    harness.add(pod("train"))
    harness.run()
    harness.delete("Pod", "train")
    assert harness.pending_message("train").startswith("no nodes available")
    assert (harness.nominated("train"), harness.condition("Pod", "train", "PodScheduled")) == ("", None)


@pytest.mark.parametrize(
    ("builder", "message"),
    [
        pytest.param(pod("a").requests(cpu="1 core"), "Pod a: '1 core' has the unknown unit ' core'", id="quantity"),
        pytest.param(pod("a").label("n", 1), "Pod a: Expected `str`, got `int` - at `$.metadata.labels", id="label"),  # type: ignore[arg-type]
        pytest.param(node("n1", cpu="four"), "Node n1: 'four' is not a quantity", id="node"),
        pytest.param(pod(""), "Pod: metadata.name is required", id="no name"),
    ],
)
def test_invalid_builder_is_named_and_not_stored(builder: PodBuilder | NodeBuilder, message: str) -> None:
    harness = Harness()
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        harness.add(builder)
    assert (dict(harness.pods), harness.nodes) == ({}, {})
    harness.restart()
    harness.add(node("n1"), pod("a"))
    harness.run()
    assert harness.assignments == {"a": "n1"}


def test_invalid_update_keeps_the_pod() -> None:
    harness = Harness()
    harness.add(pod("a").label("kept", "yes"))
    with pytest.raises(ValueError, match="Pod a: "):
        harness.add(pod("a").requests(cpu="lots"))
    assert harness.pods["default/a"].manifest["metadata"]["labels"] == {"kept": "yes"}


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        pytest.param({"kind": "Pod"}, "Pod: apiVersion is required, such as v1", id="no apiVersion"),
        pytest.param(
            {"kind": "Licence"}, "Licence: apiVersion is required, such as example.com/v1", id="neither known"
        ),
        pytest.param({"apiVersion": "v1"}, "a manifest needs a kind, such as Pod", id="no kind"),
        pytest.param(
            {"apiVersion": "v1", "kind": "Deployment"},
            "kind 'Deployment' in apiVersion 'v1' is unknown: its apiVersion is apps/v1",
            id="apiVersion of another kind",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "pod"},
            "kind 'pod' in apiVersion 'v1' is unknown: did you mean Pod?",
            id="lower case",
        ),
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "Licence"},
            "kind 'Licence' in apiVersion 'example.com/v1' is unknown: apply its CustomResourceDefinition first",
            id="custom resource",
        ),
    ],
)
def test_unknown_kind_of_a_manifest_names_what_is_missing(manifest: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Harness().apply({"metadata": {"name": "x"}, **manifest})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda h: h.delete("pods", "a"), "kind 'pods' is unknown: did you mean Pod?", id="plural"),
        pytest.param(lambda h: h.delete_pod("a"), "Pod a not found in namespace default", id="pod"),
        pytest.param(
            lambda h: h.finish_binding("a"), "Pod a in namespace default has no suspended binding cycle", id="binding"
        ),
    ],
)
def test_change_of_a_missing_object_names_it(call: Callable[[Harness], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call(Harness())


def test_configuration_of_a_wrong_type_is_named() -> None:
    with pytest.raises(TypeError, match="a configuration is YAML text or the path of a file, not dict"):
        Harness({"profiles": []})  # type: ignore[arg-type]  # what an untyped caller passes


def test_failure_of_a_plugin_is_logged_with_place_and_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """pytest prints the log below a failed assertion about the pods."""
    assert enabling(Raises).assignments == {}
    [logged] = caplog.records
    assert logged.message.startswith("Plugin Raises failed in Filter (")
    assert f"{__file__}:" in logged.message
    assert 'node.labels["missing"]' in caplog.text, "the traceback"


def test_wrong_result_of_a_plugin_is_logged_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    assert enabling(ReturnsBool).assignments == {}
    [logged] = caplog.records
    assert logged.message.endswith("filter returned bool, expected None or Rejection")
    assert f"Plugin ReturnsBool failed in Filter ({__file__}:" in logged.message


def test_traceback_of_a_failed_pre_bind_is_that_of_the_plugin(caplog: pytest.LogCaptureFixture) -> None:
    assert enabling(RaisesInPreBind, "preBind").assignments == {}
    assert "KeyError: 'missing'" in caplog.text
    assert "RuntimeError" not in caplog.text
