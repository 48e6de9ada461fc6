"""Build of the real Kubernetes control plane from this folder's Go module.

Binaries are cached outside the checkout, in a folder named by a hash of their sources, and built only when missing.
A folder in KUBEBUILDER_ASSETS is used instead, as envtest and kubebuilder users expect.
Run as `python -m tests.controlplane.build [--release 1.36] [NAME ...]`; the last line printed is the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyscheduler.cli.progress_bar import STEP_SECONDS, ProgressBar

MODULE = Path(__file__).parent
REQUIRED = ("etcd", "kube-apiserver", "kube-controller-manager")
CONTROL_PLANE = (*REQUIRED, "kube-scheduler")
PREVIOUS = "1.36"
"""The other release that is served; `kubernetes-1.36.mod` has its modules."""
FIRST_TIME = {  # with an empty Go cache on two cores; the first program also compiles the shared packages
    "etcd": "a minute",
    "kube-apiserver": "3 minutes",
    "kube-controller-manager": "a minute",
    "kube-scheduler": "10 seconds",
    "oracle": "2 minutes",
}


class BuildError(Exception):
    """The binaries are not available; the text is one line with the remedy."""


class ToolchainMissing(BuildError):
    """Go is not installed: on a laptop a reason to skip, in CI a failure."""


def to_stderr(line: str) -> None:
    """Print one line, past pytest's capture of standard output where stderr is a terminal."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def build_progress() -> ProgressBar:
    """Return the progress of a build or a start: a bar on a terminal; its lines are written everywhere."""
    return ProgressBar("control plane", lines=False)


def kubernetes_version(module: Path = MODULE, release: str = "") -> str:
    """Return the version that go.mod, or the file of another release, requires, as `v1.37.2`."""
    path = module / _modules(release)[0]
    found = re.search(r"^\tk8s\.io/kubernetes (v\S+)", path.read_text(), re.MULTILINE)
    if not found:
        raise BuildError(f"{path}: no line requires k8s.io/kubernetes; restore the file from git")
    return found[1]


def binaries(names: Sequence[str] = CONTROL_PLANE, progress: ProgressBar | None = None, release: str = "") -> Path:
    """Return the folder with the named programs, building missing ones.

    `names` are folders under `cmd/`, `release` is that of go.mod by default. BuildError if a program cannot be built.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and not release and set(names) <= set(CONTROL_PLANE):
        return _checked_assets(Path(assets))
    folder = cache_folder(names, release)
    if not _missing(folder, names):
        return folder
    progress = progress or build_progress()
    with _locked(folder, progress):
        for done, name in enumerate(names):
            if _missing(folder, [name]):
                _build(name, folder, (done, len(names)), progress, release)
    return folder


def cache_folder(names: Sequence[str] = CONTROL_PLANE, release: str = "") -> Path:
    """Return the cache folder of these programs; it depends on the module, its sources, the flags and the platform."""
    digest = hashlib.sha256()
    sources = [path for name in names for path in sorted((MODULE / "cmd" / name).glob("**/*.go"))]
    for path in (*(MODULE / name for name in _modules(release)), *sources):
        digest.update(path.relative_to(MODULE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(repr((list(names), _flags(release), platform.system(), platform.machine())).encode())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pyscheduler" / "controlplane" / digest.hexdigest()[:16]


def _checked_assets(folder: Path) -> Path:
    if missing := _missing(folder, REQUIRED):
        raise BuildError(
            f"KUBEBUILDER_ASSETS={folder} has no {', '.join(missing)};"
            " add what is missing, or unset it to build from source"
        )
    return folder


def _missing(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not os.access(folder / name, os.X_OK)]


@contextmanager
def _locked(folder: Path, progress: ProgressBar) -> Iterator[None]:
    """Hold the folder's lock, so that concurrent test runs build once."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.write_line("another process is building the control plane; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _modules(release: str) -> tuple[str, str]:
    """Return the names of the files with the modules of a release and their checksums."""
    base = f"kubernetes-{release}." if release else "go."
    return f"{base}mod", f"{base}sum"


def _build(name: str, folder: Path, position: tuple[int, int], progress: ProgressBar, release: str) -> None:
    go = shutil.which("go")
    if not go:
        raise ToolchainMissing(
            "no Go toolchain on the PATH: install Go 1.26 or newer (https://go.dev/dl) to build the real control plane,"
            f" or set KUBEBUILDER_ASSETS to a folder that has {', '.join(REQUIRED)}"
        )
    if not (MODULE / "cmd" / name).is_dir():
        raise BuildError(f"no program named {name}: the module has {', '.join(sorted(_programs()))}")
    done, total = position
    about = FIRST_TIME.get(name, "a minute")
    progress.write_line(f"building {name} ({done + 1}/{total}), about {about} the first time")
    started = time.monotonic()
    unfinished = folder / f".{name}.unfinished"
    run_go_build([go, "build", *_flags(release), "-o", str(unfinished), f"./cmd/{name}"], MODULE, progress, position)
    unfinished.replace(folder / name)
    progress.write_line(f"built {name} in {time.monotonic() - started:.0f} s")


def run_go_build(
    command: Sequence[str], module: Path, progress: ProgressBar, position: tuple[int, int] = (0, 1)
) -> None:
    """Run `go build` in a module; `position` is the number of programs built before, and of all. BuildError."""
    environment = {**os.environ, "CGO_ENABLED": "0"}
    with subprocess.Popen(
        command, cwd=module, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            errors = _errors_of(child, f"compiling {command[-1]}", progress, position)
        except BaseException:
            child.kill()
            raise
        finally:
            progress.clear()
    if child.returncode:
        tail = " / ".join(line.strip() for line in errors.strip().splitlines()[-3:])
        raise BuildError(f"go build {command[-1]} in {module} failed: {tail}")


def _errors_of(child: subprocess.Popen[str], what: str, progress: ProgressBar, position: tuple[int, int]) -> str:
    """Return the error output of a process at its end."""
    while True:
        try:
            return child.communicate(timeout=STEP_SECONDS)[1]
        except subprocess.TimeoutExpired:
            progress.show(what, *position)


def _programs() -> list[str]:
    """Return the programs of this module; one with a module of its own is built elsewhere."""
    return [path.name for path in (MODULE / "cmd").iterdir() if path.is_dir() and not (path / "go.mod").exists()]


def _flags(release: str) -> list[str]:
    """Return the flags of `go build`: small binaries, and the version variables of Kubernetes' release builds."""
    version = kubernetes_version(MODULE, release)
    major, minor = version.lstrip("v").split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitCommit": "", "gitTreeState": "archive"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    settings = " ".join(f"-X {package}.{key}={value}" for package in packages for key, value in values.items())
    modules = [f"-modfile={_modules(release)[0]}"] if release else []
    return [*modules, "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {settings}"]


def main(arguments: Sequence[str]) -> int:
    """Build the named programs, or the control plane, and print their folder. Return the exit code."""
    release, names = (arguments[1], arguments[2:]) if arguments[:1] == ["--release"] else ("", arguments)
    try:
        sys.stdout.write(f"{binaries(names or (REQUIRED if release else CONTROL_PLANE), release=release)}\n")
    except BuildError as error:
        to_stderr(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        to_stderr("interrupted; finished binaries stay in the cache")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
