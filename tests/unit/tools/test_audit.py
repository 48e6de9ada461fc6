"""`make audit`: dependencies are pinned and installed as pinned."""

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


def test_all_runtime_requirements_are_pinned() -> None:
    requirements = required(OURS)
    assert {"aiohttp", "msgspec", "numpy", "yarl"} <= requirements, "transitive requirements are included"
    assert requirements <= set(PINS)


@pytest.mark.parametrize("line", ["aiohttp", "aiohttp>=3", "aiohttp==3.*", "aiohttp==3 ; python_version<'4'", "-e ."])
def test_line_without_exact_version_is_reported(line: str) -> None:
    pins, problems = read(["# a comment", "", line])
    assert not pins
    assert problems == [f"constraints.txt:3: {line!r} is not NAME==VERSION"]


def test_duplicate_name_is_reported_in_any_spelling() -> None:
    _, problems = read(["PyYAML==6.0", "pyyaml==6.1"])
    assert problems == ["constraints.txt:2: pyyaml is listed twice"]


@pytest.fixture
def installed(tmp_path: Path) -> PathDistribution:
    """Return a package of one file, as pip installs it."""
    folder = tmp_path / "thing-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    (tmp_path / "thing.py").write_text("x = 1\n")
    (folder / "RECORD").write_text("thing.py,sha256=nia_NpkRxFwkPGhBR7I_yeHc_PJX0pmhxjIBam_NM_Q,6\n")
    return PathDistribution(folder)


def test_version_other_than_the_pinned_one_is_reported(installed: PathDistribution) -> None:
    assert differences({"thing": "1.0"}, {"thing": installed}) == []
    assert differences({"thing": "1.1"}, {"thing": installed}) == ["thing 1.0 is installed, 1.1 is pinned"]
    assert differences({}, {"thing": installed}) == ["thing 1.0 is installed and not pinned"]


def test_changed_or_missing_file_is_reported(installed: PathDistribution, tmp_path: Path) -> None:
    assert list(altered(installed)) == []
    (tmp_path / "thing.py").write_text("x = 2\n")
    assert list(altered(installed)) == ["thing.py differs from its wheel"]
    (tmp_path / "thing.py").unlink()
    assert list(altered(installed)) == ["thing.py is missing"]


def test_check_is_skipped_without_a_registry(capsys: pytest.CaptureFixture[str]) -> None:
    def unreachable(pins: dict[str, str]) -> list[str]:
        raise audit.Unreachable("check for yanked versions: no network")

    assert audit._run_check(unreachable, PINS) == []
    assert capsys.readouterr().out == "SKIPPED: check for yanked versions: no network\n"
