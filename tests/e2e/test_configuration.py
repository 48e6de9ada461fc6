"""The table of configurations, loaded by the real kube-scheduler: errors, messages and results.

`tests/unit/config/test_table.py` checks the recorded results; here they are compared with the real program.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.config.load import loads, show
from tests.controlplane.build import BuildError, ToolchainMissing, binaries
from tests.controlplane.write_config import Answer, ask, located
from tests.e2e.plane import REAL
from tests.unit.config.row import Row, view
from tests.unit.config.table import ACCEPTED, KUBE, ROWS, SAMPLES, recorded

RECORDED = recorded()
AT_REST = ("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
"""Plugins without effect while their gates are off; kube-scheduler still runs them."""
NOT_HERE = {("podGroupPostFilter", "DefaultPreemption")}
"""Another part preempts for pod groups here."""
NOT_THERE = {("preScore", "ImageLocality")}
"""ImageLocality looks up images once for all nodes."""


@pytest.fixture(scope="module")
def kube_scheduler(request: pytest.FixtureRequest) -> Path:
    """The built kube-scheduler; skips without Go, fails under CI."""
    if request.config.getoption("--control-plane", default="embedded") != REAL:
        pytest.skip("needs the real kube-scheduler: pytest tests/e2e --control-plane=real")
    try:
        return binaries() / "kube-scheduler"
    except ToolchainMissing as error:
        if os.environ.get("CI", "").lower() not in {"true", "1"}:
            pytest.skip(str(error))
        pytest.fail(str(error), pytrace=False)
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


def _id(row: Row) -> str:
    return row.id


@pytest.mark.parametrize("row", ROWS, ids=_id)
def test_recorded_result_is_current(row: Row, kube_scheduler: Path, tmp_path: Path) -> None:
    answer = ask(kube_scheduler, row.text, tmp_path)
    assert answer.error.replace(str(tmp_path), "") == RECORDED[row.id][KUBE]


@pytest.mark.parametrize("row", [row for row in ACCEPTED if not row.difference], ids=_id)
def test_configuration_has_the_same_result_as_in_kube_scheduler(row: Row, kube_scheduler: Path, tmp_path: Path) -> None:
    answer = ask(kube_scheduler, row.text, tmp_path)
    assert list(differences(answer, view(loads(located(row.text, tmp_path))))) == []


@pytest.mark.parametrize("row", SAMPLES, ids=_id)
def test_kube_scheduler_accepts_the_shown_configuration(row: Row, kube_scheduler: Path, tmp_path: Path) -> None:
    loaded = loads(located(row.text, tmp_path))
    answer = ask(kube_scheduler, _without_ours(show(loaded)), tmp_path)
    assert answer.error == ""
    assert list(differences(answer, view(loaded))) == []


def _without_ours(shown: str) -> str:
    """Return a shown configuration without the plugins that run at a point here only."""
    documents = list(yaml.safe_load_all(shown))
    for profile in documents[0]["profiles"]:
        for point, name in NOT_THERE:
            enabled = profile["plugins"].get(point, {}).get("enabled", [])
            enabled[:] = [plugin for plugin in enabled if plugin["name"] != name]
    return yaml.safe_dump_all(documents)


def test_planted_difference_is_detected(kube_scheduler: Path, tmp_path: Path) -> None:
    """A changed configuration: another field, another plugin, another weight, other args."""
    answer = ask(kube_scheduler, SAMPLES[0].text, tmp_path)
    ours = view(loads(located(SAMPLES[0].text, tmp_path)))
    ours["parallelism"] = 3
    profile = ours["profiles"][0]
    profile["plugins"]["filter"].reverse()
    profile["weights"]["NodeAffinity"] = 9
    profile["args"]["InterPodAffinity"]["hardPodAffinityWeight"] = 2
    assert [line.split(": ")[0] for line in differences(answer, ours)] == [
        "parallelism",
        "profiles[0].args.InterPodAffinity.hardPodAffinityWeight",
        "profiles[0].plugins.filter",
        "profiles[0].weights",
    ]


def differences(answer: Answer, ours: dict[str, Any]) -> Iterator[str]:
    """Yield the differences of kube-scheduler's output to ours; extra values here are defaults that it omits."""
    for key, value in answer.written.items():
        adaptive = key == "percentageOfNodesToScore" and value == 0 and ours.get(key) is None
        if key not in ("apiVersion", "kind", "profiles") and not adaptive:
            yield from _unlike(value, ours.get(key), key)
    yield from _unlike(len(answer.written["profiles"]), len(ours["profiles"]), "profiles")
    for i, (written, plugins, mine) in enumerate(
        zip(answer.written["profiles"], answer.plugins, ours["profiles"], strict=True)
    ):
        path = f"profiles[{i}]"
        yield from _unlike(written["schedulerName"], mine["schedulerName"], f"{path}.schedulerName")
        enabled_names = {name for enabled in plugins.values() for name, _ in enabled}
        for config in [config for config in written.get("pluginConfig", ()) if config["name"] in enabled_names]:
            args = {key: value for key, value in config["args"].items() if key not in ("apiVersion", "kind")}
            yield from _unlike(args, mine["args"].get(config["name"]), f"{path}.args.{config['name']}")
        for point, names in mine["plugins"].items():
            if point not in plugins:  # an extension point of ours
                yield from _unlike([], list(names), f"{path}.plugins.{point}")
                continue
            there = [name for name, _ in plugins[point] if name not in AT_REST and (point, name) not in NOT_HERE]
            here = [name for name in names if (point, name) not in NOT_THERE]
            if there != here:
                yield f"{path}.plugins.{point}: {there} there, {here} here"
        weights = {name: weight for name, weight in plugins["score"] if name not in AT_REST}
        if weights != mine["weights"]:
            yield f"{path}.weights: {weights} there, {mine['weights']} here"


def _unlike(there: Any, here: Any, path: str) -> Iterator[str]:
    if isinstance(there, dict) and isinstance(here, dict):
        for key, value in there.items():
            yield from _unlike(value, here.get(key), f"{path}.{key}")
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for i, value in enumerate(there):
            yield from _unlike(value, here[i], f"{path}[{i}]")
    elif there != here and (there or here):
        yield f"{path}: {there!r} there, {here!r} here"
