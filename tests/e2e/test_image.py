"""The image without docker: the Dockerfile's steps in a folder as root, then its entrypoint.

It downloads what the image installs, so it runs with the real control plane only, which is downloaded too.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.dockerfile import DOCKERFILE, copied_sources, instructions, is_ignored, values
from tests.e2e.plane import EMBEDDED, REAL
from tests.e2e.scheduler import ROOT

INSTALLED = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
CONFIGS = sorted((ROOT / "manifests").glob("**/config.yaml"))


class Image:
    """The image built from the files in git, as folders under `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._work = root
        self._environment = {"PATH": os.environ["PATH"]}
        self.as_built: dict[str, tuple[int, int]] = {}

    def build(self) -> None:
        """Run all stages; only files that the last one copies remain, as in the image."""
        (self.root / "tmp").mkdir()
        kept: list[str] = []
        for word, rest in instructions(DOCKERFILE):
            if word == "WORKDIR":
                self._work = self._inside(rest)
                self._work.mkdir(parents=True)
            elif word == "ENV":
                self._environment |= dict(entry.split("=", 1) for entry in self._moved(f" {rest}").split())
            elif word == "RUN":
                self._run(self._moved(f" {rest}"))
            elif word == "COPY" and rest.startswith("--from="):
                _, source, target = rest.split()
                assert source == target, "the folder stands for the roots of all stages"
                kept.append(source)
            elif word == "COPY":
                self._copy(*shlex.split(rest))
        left = {Path(path).parts[1] for path in (*kept, "/etc", "/tmp")}
        for folder in [folder for folder in self.root.iterdir() if folder.name not in left]:
            shutil.rmtree(folder)

    def starts(self, *words: str) -> str:
        """Run the entrypoint with these arguments, which must succeed; return its output."""
        (entrypoint,) = values("ENTRYPOINT")
        environment = {**self._environment, "PATH": self._environment["PATH"].replace("$PATH", os.environ["PATH"])}
        command = [str(shutil.which(json.loads(entrypoint)[0], path=environment["PATH"])), *words]
        assert command[0].startswith(str(self.root))
        return _output(command, cwd=self._work, environment=environment)

    def installed(self) -> dict[str, str]:
        """Return the version of each distribution, by lower-case name."""
        python = self.root / "opt/pyscheduler/bin/python"
        versions: dict[str, str] = json.loads(_output([str(python), "-c", INSTALLED], self._work, self._environment))
        return {_same(name): version for name, version in versions.items()}

    def files(self) -> dict[str, tuple[int, int]]:
        """Return size and time of every file of the virtual environment."""
        found = (path for path in (self.root / "opt").rglob("*") if path.is_file())
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}

    def _run(self, line: str) -> None:
        python = re.sub(r"(?<![\w/])python(?= -m)", shlex.quote(sys.executable), line)
        # What has been downloaded once need not be downloaded again.
        environment = {**os.environ, "PYTHONPATH": ""}
        _output(["sh", "-ec", python.replace("--no-cache-dir", "")], self._work, environment)

    def _copy(self, *words: str) -> None:
        *sources, target = words
        for source in sources:
            for name in (name for name in in_git(source) if not is_ignored(name)):
                copy = self._work / target / Path(name).relative_to(source) if name != source else self._work / source
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy, follow_symlinks=False)  # links lead into other copied folders

    def _inside(self, path: str) -> Path:
        return self.root / path.removeprefix("/")

    def _moved(self, line: str) -> str:
        """Return the line with every absolute path below `root`."""
        return re.sub(r"(?<=[\s=])/(?=\w)", f"{self.root}/", line)


def in_git(path: str) -> list[str]:
    """Return the files at or below a path."""
    return _output(["git", "ls-files", path], ROOT, dict(os.environ)).splitlines()


def _output(command: list[str], cwd: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def _same(name: str) -> str:
    """Return a distribution's name as pip normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The image, built once and read-only as in the pod."""
    if request.config.getoption("--control-plane", default=EMBEDDED) != REAL:
        pytest.skip("downloads what the image installs: pytest tests/e2e --control-plane=real")
    made = Image(tmp_path_factory.mktemp("image"))
    made.build()
    made.as_built = made.files()
    subprocess.run(["chmod", "-R", "a-w", str(made.root / "opt")], check=True)
    yield made
    subprocess.run(["chmod", "-R", "u+w", str(made.root / "opt")], check=True)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_every_source_is_in_git() -> None:
    assert [source for source in copied_sources() if not in_git(source)] == []


def test_entrypoint_prints_its_help(image: Image) -> None:
    assert "Usage: pyscheduler" in image.starts(*json.loads(values("CMD")[0]))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.parent.name)
def test_configuration_of_each_overlay_is_valid_in_the_image(image: Image, config: Path) -> None:
    mounted = image.root / "etc/pyscheduler/config.yaml"
    mounted.write_text(config.read_text())
    assert "valid; schedules pods" in image.starts("config", "validate", "config.yaml")


def test_installation_folder_is_not_written(image: Image) -> None:
    image.starts("plugins", "list")
    assert image.files() == image.as_built


def test_image_has_the_tested_versions(image: Image) -> None:
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    tested = {_same(name): version for name, version in pins.items()}
    ours, installed = {"pyscheduler"}, image.installed()
    others = installed.keys() - ours - {"pip", "setuptools"}
    assert ours <= installed.keys()
    assert [name for name in sorted(others) if installed[name] != tested.get(name)] == []
