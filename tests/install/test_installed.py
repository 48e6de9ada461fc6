"""The distribution alone: sdist and wheel are complete, and in a clean environment the example workloads run.

Everything is built from the files in git, and installed with this Python into a new virtual environment. That needs a
package registry.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS_UNTIL_RUNNING = 60
EXAMPLE_PODS = 16
"""Six of a Deployment, four and three of Jobs, three alone."""
PYTHONS = ("3.11", "3.12", "3.13")
"""Versions that one wheel serves; those that are not installed here are skipped."""
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
NO_REGISTRY = ("No matching distribution found", "Could not fetch", "Connection", "Failed to establish")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")]


def output(command: list[str | Path], cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean_environment(cwd) if environment is None else environment,
        capture_output=True,
        text=True,
        check=False,
    )
    text = done.stdout[-2000:] + done.stderr[-2000:]
    if done.returncode and not os.environ.get("CI") and any(word in text for word in NO_REGISTRY):
        pytest.skip("no package registry")
    assert done.returncode == 0, text
    return done.stdout


def clean_environment(home: Path) -> dict[str, str]:
    """Return an environment without anything of this checkout."""
    network = ("PIP_INDEX_URL", "PIP_CERT", "https_proxy", "HTTPS_PROXY")
    kept = {name: os.environ[name] for name in network if name in os.environ}
    return {**kept, "PATH": os.environ["PATH"], "HOME": str(home)}


def in_git(*folders: str) -> list[str]:
    """Return the regular files in git at these paths; links are left out."""
    listed = output(["git", "ls-files", *folders], ROOT).splitlines()
    return [name for name in listed if not (ROOT / name).is_symlink()]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a new virtual environment."""
    folder = tmp_path_factory.mktemp("venv")
    output([sys.executable, "-m", "venv", folder], folder)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def sdist(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source distribution of a copy of the files in git."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("sdist")
    for name in output(["git", "ls-files"], ROOT).splitlines():
        copy = source / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy, follow_symlinks=False)
    output([python, "-m", "pip", "install", "-q", "setuptools>=77"], source)
    output([python, "-c", BUILD, target], source)
    (file,) = target.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(python: Path, sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel that is built from the source distribution."""
    target = tmp_path_factory.mktemp("wheel")
    output([python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", target, sdist], target)
    (file,) = target.glob("*.whl")
    return file


@pytest.fixture(scope="module", params=PYTHONS)
def program(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `pyscheduler`, installed from the wheel with its dependencies for one version of Python."""
    interpreter = interpreter_of(request.param)
    if interpreter is None:
        pytest.skip(f"Python {request.param} is not installed")
    folder = tmp_path_factory.mktemp(f"python-{request.param}")
    output([interpreter, "-m", "venv", folder], folder)
    output([folder / "bin" / "python", "-m", "pip", "install", "-q", wheel], folder)
    return folder / "bin" / "pyscheduler"


def interpreter_of(version: str) -> str | None:
    """Return the interpreter of this version of Python, or None. A launcher on the PATH may stand for none."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return sys.executable
    found = shutil.which(f"python{version}")
    works = found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    return found if works else None


def test_one_wheel_serves_all_versions_of_python(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name


def test_sdist_and_wheel_have_the_code_the_manifests_and_the_configurations(sdist: Path, wheel: Path) -> None:
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    for name in in_git("pyscheduler", "manifests", "config", "plugins/pyscheduler_plugins"):
        is_data = name.startswith(("manifests/", "config/"))
        installed = f"pyscheduler/data/{name}" if is_data else name.removeprefix("plugins/")
        assert installed in in_wheel or name.endswith(".c"), name
        assert (installed if is_data else name) in in_sdist, name
    assert not [name for name in in_wheel if name.endswith((".pyc", ".c"))]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_wheel_has_the_compiled_kernels(wheel: Path) -> None:
    assert "pyscheduler/kernels/compiled.abi3.so" in zipfile.ZipFile(wheel).namelist()


def test_program_prints_its_version_and_its_plugins(program: Path, tmp_path: Path) -> None:
    assert output([program, "--version"], tmp_path).startswith("pyscheduler 0.")
    listed = output([program, "plugins", "list"], tmp_path)
    assert all(name in listed for name in ("NodeResourcesBalancedAllocation", "Gang", "Queues"))


@pytest.fixture
def cluster(program: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Environment with KUBECONFIG of a cluster that `pyscheduler up` serves from an empty folder."""
    environment = {**clean_environment(tmp_path), "KUBECONFIG": str(tmp_path / "kubeconfig")}
    with (tmp_path / "log").open("w") as log:
        command = [str(program), "up", "--kubeconfig-out", "kubeconfig"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            until(lambda: Path(environment["KUBECONFIG"]).exists(), lambda: (tmp_path / "log").read_text())
            yield environment
        finally:
            process.terminate()
            process.wait(10)


def until(condition: object, explain: object, seconds: float = 30) -> None:
    """Wait until a condition is true; fail with an explanation after `seconds`."""
    assert callable(condition)
    assert callable(explain)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.2)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_example_workloads_run_on_the_cluster_of_a_clean_environment(
    program: Path, cluster: dict[str, str], tmp_path: Path
) -> None:
    examples = output([program, "manifests", "examples"], tmp_path).strip()
    output(["kubectl", "apply", "-f", examples], tmp_path, cluster)

    def phases() -> Counter[str]:
        path = "jsonpath={.items[*].status.phase}"
        return Counter(output(["kubectl", "get", "pods", "-A", "-o", path], tmp_path, cluster).split())

    def run() -> bool:
        found = phases()
        return found.total() >= EXAMPLE_PODS and set(found) <= {"Running", "Succeeded"}

    until(run, phases, SECONDS_UNTIL_RUNNING)
