"""Base commit of a checkout, and its tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.decide import base, comparison
from bench.decide.measurement import Figure
from bench.decide.results import Results

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.com")


def git(repository: Path, *args: str) -> str:
    done = subprocess.run(["git", *AUTHOR, *args], cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(repository: Path, text: str) -> str:
    kernels = repository / "pyscheduler" / "kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    (kernels / "compiled.c").write_text(text)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", text)
    return git(repository, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    return tmp_path


def test_base_on_the_trunk_is_the_previous_commit(repository: Path) -> None:
    first = commit(repository, "first")
    commit(repository, "second")
    assert base.base_commit(repository, "main") == first
    assert base.base_commit(repository, "origin/main") == first


def test_base_of_a_branch_is_where_it_left_the_trunk(repository: Path) -> None:
    first = commit(repository, "first")
    git(repository, "checkout", "-q", "-b", "branch")
    commit(repository, "second")
    commit(repository, "third")
    assert base.base_commit(repository, "main") == first


def test_there_is_no_base_without_history(repository: Path) -> None:
    assert base.base_commit(repository) is None
    commit(repository, "first")
    assert base.base_commit(repository) is None


def test_exported_tree_has_the_files_and_kernels_of_its_commit(repository: Path, tmp_path: Path) -> None:
    first = commit(repository, "first")
    (repository / "pyscheduler" / "kernels" / "compiled.abi3.so").write_bytes(b"\x7fELF")
    tree = tmp_path / "tree"
    base.export(repository, first, tree)
    base.add_kernels(repository, tree)
    assert (tree / "pyscheduler" / "kernels" / "compiled.c").read_text() == "first"
    assert (tree / "pyscheduler" / "kernels" / "compiled.abi3.so").read_bytes() == b"\x7fELF"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the measurement by one in which one row of two is slower."""

    def figures(*times: float) -> Results:
        return Results([Figure(f"row {i}", 1000, time, time, time) for i, time in enumerate(times)], {})

    monkeypatch.setattr(comparison, "compare", lambda *_: [(figures(10, 10), figures(20, 10))])
    monkeypatch.setattr(base, "export", lambda *_: None)
    monkeypatch.setattr(base, "add_kernels", lambda *_: None)


@pytest.mark.usefixtures("measured")
def test_slower_rows_are_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(base, "base_commit", lambda _: "0123456789abcdef")
    base.main()
    shown = capsys.readouterr().out
    assert "1 of 2 rows are more than 15 % slower than 0123456789" in shown
    assert "row 0" in shown
    assert "row 1" not in shown


def test_missing_base_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(base, "base_commit", lambda _: None)
    base.main()
    assert capsys.readouterr().out.startswith("Decisions are not compared: ")
