"""`pyscheduler plugins list` shows all plugins, whether a configuration enables them, and why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyscheduler import intree
from pyscheduler.cli.plugins import plugins
from pyscheduler.config.other_schedulers import SCHEDULER_PLUGINS, VOLCANO
from pyscheduler.config.problems import ConfigError
from tests.unit.config.files import HEAD, offer

CONFIG = (
    HEAD
    + """profiles:
- schedulerName: one
  plugins:
    multiPoint:
      enabled: [{name: "tests.unit.config.plugins:Second"}, {name: QoSSort}]
      disabled: [{name: ImageLocality}]
    queueSort: {disabled: [{name: PrioritySort}]}
- schedulerName: two
  plugins:
    multiPoint: {enabled: [{name: QoSSort}], disabled: [{name: ImageLocality}]}
    queueSort: {disabled: [{name: PrioritySort}]}
"""
)


def listed(*options: str) -> Result:
    return CliRunner().invoke(plugins, ["list", *options])


def rows(*options: str) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(listed("--output", "json", *options).stdout)}


def test_list_has_in_tree_plugins_and_those_of_entry_points() -> None:
    shown = rows()
    assert (shown["NodeName"]["distribution"], shown["NodeName"]["default"]) == ("pyscheduler", True)
    assert (shown["Gang"]["distribution"], shown["Gang"]["default"]) == ("pyscheduler", False)
    assert shown.keys() > {cls.name for cls in intree.PLUGINS}


def test_reason_is_shown_for_a_plugin_that_is_not_enabled() -> None:
    shown = rows()
    assert (shown["NodeName"]["profiles"], shown["NodeName"]["disabled"]) == (["default-scheduler"], "")
    assert (shown["Gang"]["profiles"], shown["Gang"]["disabled"]) == ([], "not enabled")
    assert shown["GangScheduling"]["disabled"] == "feature gate GenericWorkload is off"
    assert not shown["GangScheduling"]["default"]


def test_feature_gate_enables_its_plugin() -> None:
    assert rows("--feature-gates", "GenericWorkload=true")["GangScheduling"]["profiles"] == ["default-scheduler"]


def test_plugins_of_a_configuration_are_listed_with_its_profiles(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    shown = rows("--config", str(file))
    assert shown["QoSSort"]["profiles"] == ["one", "two"]
    assert shown["Second"]["profiles"] == ["one"]
    assert "tests.unit.config.plugins:Second" in shown["Second"]["distribution"]
    assert shown["ImageLocality"]["disabled"] == "disabled"


def test_weights_are_those_of_the_profiles(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        HEAD
        + """profiles:
- {schedulerName: one, plugins: {multiPoint: {enabled: [{name: BinPack, weight: 5}, {name: ImageLocality, weight: 7}]}}}
- {schedulerName: two, plugins: {multiPoint: {enabled: [{name: BinPack}]}}}
"""
    )
    shown = rows("--config", str(file))
    assert {name: shown[name]["weights"] for name in ("BinPack", "ImageLocality", "NodeAffinity", "NodeName")} == {
        "BinPack": [5, 1],
        "ImageLocality": [7, 1],
        "NodeAffinity": [2, 2],
        "NodeName": [0, 0],
    }
    lines = {line.split()[0]: line for line in listed("--config", str(file)).stdout.splitlines()}
    assert " one, two " in lines["BinPack"]
    assert " 5, 1 " in lines["BinPack"]
    assert lines["NodeAffinity"].split()[3] == "2"


def test_no_name_is_cut_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = listed().stdout
    assert all(cls.name in text for cls in intree.PLUGINS)
    assert "…" not in text


def test_names_limit_the_list() -> None:
    assert rows("Gang", "NodeName").keys() == {"Gang", "NodeName"}


@pytest.mark.parametrize("name", [*SCHEDULER_PLUGINS, *VOLCANO])
def test_plugin_of_another_scheduler_is_listed_with_its_replacement(name: str) -> None:
    result = listed(name)
    assert result.exit_code == 0
    assert result.stdout.startswith(f'plugin "{name}" does not exist; it is a plugin of ')


@pytest.mark.parametrize("text", sorted({*SCHEDULER_PLUGINS.values(), *VOLCANO.values()}))
def test_replacement_names_plugins_that_exist(text: str) -> None:
    words = {word.strip(",:()") for word in text.split()}
    named = {word for word in words if any(letter.isupper() for letter in word[1:]) and not word.isupper()}
    objects = {"PodGroup", "ElasticQuota", "PriorityClass", "HyperNodes", "ResourceQuotas", "ResourceClaims"}
    assert named - objects - {"jobOrder", "preemptionPolicy"} <= rows().keys()


def test_unknown_name_is_an_error_with_a_suggestion() -> None:
    problem = listed("NodNam").exception
    assert str(problem) == (
        'plugin "NodNam" does not exist; did you mean "NodeName"?; `pyscheduler plugins list` shows all'
    )


def test_broken_plugin_is_reported_and_the_others_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("Lonely", "nowhere_at_all:Lonely"))
    result = listed()
    assert "NodeName" in result.stdout
    assert "no: cannot be loaded: the module" in result.stdout
    assert result.stderr.startswith('warning: plugin "Lonely" of an unknown distribution cannot be loaded: the module')


def test_two_plugins_with_the_same_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("NodeName", "tests.unit.config.plugins:Impostor"))
    assert isinstance(listed().exception, ConfigError)
