"""Where the binaries come from: the cache, a folder of the user's, or one clear line that says what is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.controlplane import build


def program(folder: Path, name: str) -> None:
    """Puts an executable file there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH without Go."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.devnull)
    return tmp_path


def test_what_is_in_the_cache_is_not_built_again(cache: Path) -> None:
    for name in build.CONTROL_PLANE:
        program(build.cache_folder(), name)

    assert build.binaries() == build.cache_folder()
    assert build.cache_folder().is_relative_to(cache / "pyscheduler" / "controlplane")


def test_without_go_one_line_says_what_to_do(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main([]) == 1

    shown = capsys.readouterr()
    assert shown.err.startswith("error: no Go toolchain on the PATH: install Go 1.26")
    assert len(shown.err.splitlines()) == 1


def test_an_unknown_program_is_named_beside_those_there_are(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(cache / "bin", "go")
    monkeypatch.setenv("PATH", str(cache / "bin"))

    with pytest.raises(build.BuildError, match="no program named kubelet: the module has etcd, kube-apiserver"):
        build.binaries(["kubelet"])


def test_a_failing_build_ends_in_one_line_and_leaves_no_binary(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(cache / "bin", "go")
    (cache / "bin" / "go").write_text("#!/bin/sh\necho 'no space left' >&2; exit 1\n")
    monkeypatch.setenv("PATH", f"{cache / 'bin'}")

    with pytest.raises(build.BuildError, match=r"go build \./cmd/etcd .* failed: no space left") as failed:
        build.binaries(progress=lambda line: None)

    assert len(str(failed.value).splitlines()) == 1
    assert not (build.cache_folder() / "etcd").exists()


def test_a_folder_of_the_users_is_taken_as_it_is(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(cache / "assets"))
    for name in build.REQUIRED:
        program(cache / "assets", name)

    assert build.binaries() == cache / "assets"


def test_a_folder_that_lacks_a_program_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(cache / "assets"))
    program(cache / "assets", "etcd")

    with pytest.raises(build.BuildError, match="has no kube-apiserver, kube-controller-manager; add what is missing"):
        build.binaries()


@pytest.mark.parametrize("changed", ["go.mod", "go.sum", "cmd/etcd/main.go"])
def test_a_change_of_the_module_asks_for_a_new_build(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("go.mod", "go.sum", "cmd/etcd/main.go"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((build.MODULE / path).read_text())
    monkeypatch.setattr(build, "MODULE", tmp_path)
    before = build.cache_folder(["etcd"])

    with (tmp_path / changed).open("a") as file:
        file.write("\n// changed\n")

    assert build.cache_folder(["etcd"]) != before
