"""`pyscheduler plugins list` shows the installed plugins, and reports those that cannot be loaded."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from pyscheduler.cli.plugins import plugins
from pyscheduler.config.problems import ConfigError
from tests.unit.config.files import offer


def listed(*options: str) -> Result:
    return CliRunner().invoke(plugins, ["list", *options])


def test_list_has_in_tree_plugins_and_those_of_entry_points() -> None:
    rows = {row["name"]: row for row in json.loads(listed("--output", "json").stdout)}
    assert (rows["NodeName"]["distribution"], rows["NodeName"]["default"]) == ("pyscheduler", True)
    assert (rows["Gang"]["distribution"], rows["Gang"]["default"]) == ("pyscheduler", False)


def test_broken_plugin_is_reported_and_the_others_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("Lonely", "nowhere_at_all:Lonely"))
    result = listed()
    assert "NodeName" in result.stdout
    assert result.stderr.startswith('warning: plugin "Lonely" of an unknown distribution cannot be loaded: the module')


def test_two_plugins_with_the_same_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("NodeName", "tests.unit.config.plugins:Impostor"))
    assert isinstance(listed().exception, ConfigError)
