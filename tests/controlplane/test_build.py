"""Sources of the binaries: the cache, a folder of the user's, or an error with the remedy."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest

from pyscheduler.cli.progress_bar import ProgressBar
from tests.controlplane import build
from tests.unit.cli.terminal import CLEAR, Terminal
from tests.unit.kube.virtual import VirtualClock


def program(folder: Path, name: str) -> None:
    """Write an executable file."""
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


def test_cached_binaries_are_not_built_again(cache: Path) -> None:
    for name in build.CONTROL_PLANE:
        program(build.cache_folder(), name)

    assert build.binaries() == build.cache_folder()
    assert build.cache_folder().is_relative_to(cache / "pyscheduler" / "controlplane")


def test_previous_release_has_modules_and_a_cache_of_its_own(cache: Path) -> None:
    assert build.kubernetes_version(release=build.PREVIOUS).startswith(f"v{build.PREVIOUS}.")
    assert not build.kubernetes_version().startswith(f"v{build.PREVIOUS}.")
    folders = {build.cache_folder(build.REQUIRED, release) for release in ("", build.PREVIOUS)}
    assert len(folders) == 2


def test_missing_go_is_reported_in_one_line(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main([]) == 1

    shown = capsys.readouterr()
    assert shown.err.startswith("error: no Go toolchain on the PATH: install Go 1.26")
    assert len(shown.err.splitlines()) == 1


def test_unknown_program_is_reported_with_the_known_ones(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(cache / "bin", "go")
    monkeypatch.setenv("PATH", str(cache / "bin"))

    with pytest.raises(build.BuildError, match="no program named kubelet: the module has clientgo, etcd"):
        build.binaries(["kubelet"])


def test_failed_build_is_one_line_and_leaves_no_binary(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(cache / "bin", "go")
    (cache / "bin" / "go").write_text("#!/bin/sh\necho 'no space left' >&2; exit 1\n")
    monkeypatch.setenv("PATH", f"{cache / 'bin'}")

    with pytest.raises(build.BuildError, match=r"go build \./cmd/etcd .* failed: no space left") as failed:
        build.binaries(progress=ProgressBar("build", stream=StringIO()))

    assert len(str(failed.value).splitlines()) == 1
    assert not (build.cache_folder() / "etcd").exists()


class EndingTerminal(Terminal):
    """A terminal that lets a build end at its first bar."""

    def __init__(self, end: Path) -> None:
        super().__init__()
        self._end = end

    def write(self, text: str) -> int:
        if "compiling" in text:
            self._end.touch()
        return super().write(text)


# It waits for the file `end`, and not forever, so that a build without a bar fails.
COMPILER = """#!/bin/sh
i=0; while [ ! -e {end} ] && [ $i -lt 500000 ]; do i=$((i + 1)); done
while [ "$1" != -o ]; do shift; done
echo program > "$2"
"""


def test_terminal_shows_how_long_a_program_has_been_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(cache / "bin", "go")
    (cache / "bin" / "go").write_text(COMPILER.format(end=cache / "end"))
    monkeypatch.setenv("PATH", f"{cache / 'bin'}")
    monkeypatch.setattr(build, "STEP_SECONDS", 0.01)
    terminal, clock = EndingTerminal(cache / "end"), VirtualClock()
    clock.step = 5.0

    build.binaries(["etcd"], ProgressBar("control plane", stream=terminal, clock=clock))

    line, bar, *_, end = terminal.getvalue().split(CLEAR)
    assert line == "building etcd (1/1), about a minute the first time\n"
    assert bar == "[------------------------] control plane: compiling ./cmd/etcd, 0 of 1, 5 s"
    assert end.startswith("built etcd in ")


def test_kubebuilder_assets_are_used_instead_of_a_build(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(cache / "assets"))
    for name in build.REQUIRED:
        program(cache / "assets", name)

    assert build.binaries() == cache / "assets"


def test_kubebuilder_assets_without_a_program_raise(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(cache / "assets"))
    program(cache / "assets", "etcd")

    with pytest.raises(build.BuildError, match="has no kube-apiserver, kube-controller-manager; add what is missing"):
        build.binaries()


@pytest.mark.parametrize("changed", ["go.mod", "go.sum", "cmd/etcd/main.go"])
def test_changed_module_uses_another_cache_folder(
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
