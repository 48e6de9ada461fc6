"""`make audit`: everything is pinned to one version, and what is installed is that."""

from __future__ import annotations

from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from tools import audit
from tools.audit import OURS, ROOT, altered, differences, read, required

PINS, PROBLEMS = read((ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines())


def test_constraints_pin_everything_exactly() -> None:
    assert not PROBLEMS
    assert len(PINS) > 30


def test_all_that_is_needed_to_run_is_pinned() -> None:
    needed = required(OURS)
    assert {"aiohttp", "msgspec", "numpy", "yarl"} <= needed, "also what the packages that we name need"
    assert needed <= set(PINS)


@pytest.mark.parametrize("line", ["aiohttp", "aiohttp>=3", "aiohttp==3.*", "aiohttp==3 ; python_version<'4'", "-e ."])
def test_a_line_that_pins_nothing_is_told(line: str) -> None:
    pins, problems = read(["# a comment", "", line])
    assert not pins
    assert problems == [f"constraints.txt:3: {line!r} is not NAME==VERSION"]


def test_a_name_that_is_there_twice_is_told_however_it_is_written() -> None:
    _, problems = read(["PyYAML==6.0", "pyyaml==6.1"])
    assert problems == ["constraints.txt:2: pyyaml is there twice"]


@pytest.fixture
def installed(tmp_path: Path) -> PathDistribution:
    """A package of one file, as pip would have installed it."""
    folder = tmp_path / "thing-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    (tmp_path / "thing.py").write_text("x = 1\n")
    (folder / "RECORD").write_text("thing.py,sha256=nia_NpkRxFwkPGhBR7I_yeHc_PJX0pmhxjIBam_NM_Q,6\n")
    return PathDistribution(folder)


def test_a_version_that_is_not_the_pinned_one_is_told(installed: PathDistribution) -> None:
    assert differences({"thing": "1.0"}, {"thing": installed}) == []
    assert differences({"thing": "1.1"}, {"thing": installed}) == ["thing 1.0 is installed, 1.1 is pinned"]
    assert differences({}, {"thing": installed}) == ["thing 1.0 is installed and not pinned"]


def test_a_file_that_was_changed_or_is_missing_is_told(installed: PathDistribution, tmp_path: Path) -> None:
    assert list(altered(installed)) == []
    (tmp_path / "thing.py").write_text("x = 2\n")
    assert list(altered(installed)) == ["thing.py is not as it was published"]
    (tmp_path / "thing.py").unlink()
    assert list(altered(installed)) == ["thing.py is missing"]


def test_without_a_registry_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def unreachable(pins: dict[str, str]) -> list[str]:
        raise audit.Unreachable("whether versions were withdrawn: no network")

    assert audit._told_by(unreachable, PINS) == []
    assert capsys.readouterr().out == "SKIPPED: whether versions were withdrawn: no network\n"
