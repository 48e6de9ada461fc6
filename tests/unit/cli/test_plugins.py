"""`pyscheduler plugins list` tells what configurations can name, and why something installed is not among it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from pyscheduler.cli.plugins import plugins
from pyscheduler.config.problems import ConfigError
from tests.unit.config.files import offer


def listed(*options: str) -> Result:
    return CliRunner().invoke(plugins, ["list", *options])


def test_those_of_installed_distributions_stand_beside_kube_schedulers() -> None:
    rows = {row["name"]: row for row in json.loads(listed("--output", "json").stdout)}
    assert (rows["NodeName"]["distribution"], rows["NodeName"]["default"]) == ("pyscheduler", True)
    assert (rows["Gang"]["distribution"], rows["Gang"]["default"]) == ("pyscheduler-plugins", False)


def test_one_that_is_broken_is_told_and_the_others_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("Lonely", "nowhere_at_all:Lonely"))
    result = listed()
    assert "NodeName" in result.stdout
    assert result.stderr.startswith('warning: plugin "Lonely" of an unknown distribution cannot be loaded: the module')


def test_two_of_one_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("NodeName", "tests.unit.config.plugins:Impostor"))
    assert isinstance(listed().exception, ConfigError)
