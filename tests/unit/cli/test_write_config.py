"""`run --write-config-to`: what a configuration comes to, as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.cli import options
from pyscheduler.config.load import default, load, show
from pyscheduler.config.problems import ConfigError


def test_what_is_written_is_what_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "written.yaml"
    options.write(default(), file)
    assert file.read_text() == show(default())
    assert load(file).profiles == default().profiles


def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        options.write(default(), tmp_path)
    assert str(refused.value) == f"{tmp_path}: cannot be written: Is a directory"
