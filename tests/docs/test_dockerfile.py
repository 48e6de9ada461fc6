"""The image can be built: what it copies is there and not ignored, and it installs what the Makefile installs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.dockerfile import copied, ignored, values
from tests.docs.pages import ROOT
from tools.audit import required


def test_what_is_copied_is_there_and_not_ignored() -> None:
    assert copied()
    for source in copied():
        assert (ROOT / source).exists(), source
        assert not ignored(source), source


def test_every_module_and_data_file_reaches_the_builder() -> None:
    for package in ("pyscheduler", "plugins/pyscheduler_plugins"):
        wanted = [p for p in (ROOT / package).rglob("*") if p.suffix in (".py", ".yaml") or p.name == "py.typed"]
        lost = [str(p) for p in wanted if ignored(str(p.relative_to(ROOT)))]
        assert wanted
        assert not lost


def test_nothing_else_does() -> None:
    for path in (".git/HEAD", ".venv/bin/python", "tests/docs/pages.py", "plugins/tests/test_gang.py"):
        assert ignored(path), path
    assert ignored("pyscheduler/core/__pycache__/machine.cpython-313.pyc")


def test_both_distributions_are_installed() -> None:
    (run,) = values("RUN")
    assert "install -c constraints.txt -e . -e plugins" in (ROOT / "Makefile").read_text()
    assert re.search(r"pip wheel .* \. \./plugins\b", run)
    assert re.search(r"pip install .*--no-index --no-deps /wheels/\*\.whl", run)
    files = {"requirements.txt", "requirements-build.txt", "pyproject.toml", "README.md", "LICENSE"}
    assert {*files, "pyscheduler", "plugins"} == set(copied())


def test_nothing_is_installed_from_an_index_without_hashes() -> None:
    (run,) = values("RUN")
    installs = re.findall(r"pip install ([^&]*)", run)
    assert len(installs) == 3
    assert all("--require-hashes -r " in words or "--no-index" in words for words in installs)
    assert "--no-build-isolation" in run, "else pip would fetch the newest"


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_every_requirement_of_the_image_has_one_version_and_hashes(name: str) -> None:
    for requirement, hashes in requirements(name).items():
        assert "==" in requirement, requirement
        assert hashes, requirement
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in hashes)


def test_the_image_runs_on_the_versions_of_the_constraints() -> None:
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines()[1:])
    tested = {canonicalize_name(name): version for name, version in pins.items()}
    runs = {Requirement(each).name: Requirement(each) for each in requirements("requirements.txt")}
    assert all(tested[canonicalize_name(name)] in found.specifier for name, found in runs.items() if name in tested)
    needed = {canonicalize_name(name) for name in required(["pyscheduler", "pyscheduler-plugins"])}
    assert needed <= {canonicalize_name(name) for name in runs}


def test_what_builds_is_new_enough() -> None:
    (wanted,) = re.findall(r'^requires = \["setuptools>=(\d+)"\]', (ROOT / "pyproject.toml").read_text(), re.M)
    (pinned,) = requirements("requirements-build.txt")
    assert int(pinned.split("==")[1].split(".")[0]) >= int(wanted)


def test_both_stages_are_of_one_python_and_named_by_digest() -> None:
    images = [rest.split()[0].split("@") for rest in values("FROM")]
    (built_in, _), (runs_in, _) = images
    assert runs_in.replace("-slim", "") == built_in, "the same but for the compiler"
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for _, digest in images)


def requirements(name: str) -> dict[str, list[str]]:
    """The requirements of a file of hashes, each with its hashes."""
    joined = (ROOT / name).read_text().replace("\\\n", "")
    lines = [line.split("--hash=") for line in joined.splitlines() if not line.startswith("#")]
    return {requirement.strip(): [each.strip() for each in hashes] for requirement, *hashes in lines}


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
