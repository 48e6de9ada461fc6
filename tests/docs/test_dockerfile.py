"""The image can be built: what it copies is there and not ignored, and it installs what the Makefile installs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path, PurePosixPath

import yaml

from tests.docs.pages import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction and the rest of its line; lines that go on are joined."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", text, flags=re.M))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines()) if word]


def values(name: str) -> list[str]:
    return [rest for word, rest in instructions(DOCKERFILE) if word == name]


def copied() -> list[str]:
    """What is copied from the folder that is built."""
    return [source for rest in values("COPY") if "--from=" not in rest for source in shlex.split(rest)[:-1]]


def ignored(path: str, patterns: list[str]) -> bool:
    """Docker's rule: the last pattern that matches the path or a folder above it decides."""
    out = False
    for pattern in patterns:
        keep = pattern.startswith("!")
        above = [path, *map(str, PurePosixPath(path).parents)]
        if any(_matches(folder, pattern.removeprefix("!")) for folder in above if folder != "."):
            out = not keep
    return out


def _matches(path: str, pattern: str) -> bool:
    translated = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
    return re.fullmatch(translated, path) is not None


PATTERNS = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    assert copied()
    for source in copied():
        assert (ROOT / source).exists(), source
        assert not ignored(source, PATTERNS), source


def test_every_module_and_data_file_reaches_the_builder() -> None:
    for package in ("pyscheduler", "plugins/pyscheduler_plugins"):
        wanted = [p for p in (ROOT / package).rglob("*") if p.suffix in (".py", ".yaml") or p.name == "py.typed"]
        lost = [str(p) for p in wanted if ignored(str(p.relative_to(ROOT)), PATTERNS)]
        assert wanted
        assert not lost


def test_nothing_else_does() -> None:
    for path in (".git/HEAD", ".venv/bin/python", "tests/docs/pages.py", "plugins/tests/test_gang.py"):
        assert ignored(path, PATTERNS), path
    assert ignored("pyscheduler/core/__pycache__/machine.cpython-313.pyc", PATTERNS)


def test_both_distributions_are_installed_with_the_pinned_versions() -> None:
    (run,) = values("RUN")
    makefile = (ROOT / "Makefile").read_text()
    assert "install -c constraints.txt -e . -e plugins" in makefile
    assert re.search(r"pip wheel .* \. \./plugins\b", run)
    assert re.search(r"pip install .*-c constraints\.txt /wheels/\*\.whl", run)
    assert {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "pyscheduler", "plugins"} == set(copied())


def test_what_the_metadata_names_is_copied() -> None:
    readme = re.search(r'^readme = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert readme
    assert readme[1] in copied()


def test_the_image_is_what_the_deployment_expects() -> None:
    pod = yaml.safe_load((ROOT / "manifests" / "base" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    (container,), user = pod["containers"], pod["securityContext"]
    assert values("USER") == [f"{user['runAsUser']}:{user['runAsGroup']}"]
    assert values("EXPOSE") == [str(container["ports"][0]["containerPort"])]
    assert values("ENTRYPOINT") == ['["pyscheduler"]']
    assert container["args"][0] == "run"
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {"PYTHONDONTWRITEBYTECODE=1", "HOME=/tmp"} <= set(values("ENV")[0].split())
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert values("WORKDIR")[-1] == mounts["config"]
    assert Path(container["args"][1].removeprefix("--config=")).parent == Path(mounts["config"])


def test_the_version_of_the_image_is_ours() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version
    images = yaml.safe_load((ROOT / "manifests" / "base" / "kustomization.yaml").read_text())["images"]
    assert images[0]["newTag"] == version[1]
    for page in ("README.md", "CHANGELOG.md", "Dockerfile"):
        assert version[1] in (ROOT / page).read_text(), page
