"""`run --write-config-to`: writes the configuration with all defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.cli import options
from pyscheduler.config.load import default, load, show
from pyscheduler.config.problems import ConfigError


def test_written_config_equals_config_show_and_can_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "written.yaml"
    options.write(default(), file)
    assert file.read_text() == show(default())
    assert load(file).profiles == default().profiles


def test_unwritable_path_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        options.write(default(), tmp_path)
    assert str(raised.value) == f"{tmp_path}: cannot be written: Is a directory"
