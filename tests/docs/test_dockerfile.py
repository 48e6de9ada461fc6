"""The image can be built: its sources exist and are not ignored, and it installs what the Makefile installs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pyscheduler.data import HELM_CHART
from tests.docs.dockerfile import copied_sources, is_ignored, values
from tests.docs.pages import ROOT
from tools.audit import required


def test_copied_sources_exist_and_are_not_ignored() -> None:
    assert copied_sources()
    for source in copied_sources():
        assert (ROOT / source).exists(), source
        assert not is_ignored(source), source


def test_every_module_and_data_file_reaches_the_builder() -> None:
    for package in ("pyscheduler", "plugins/pyscheduler_plugins", "manifests", "config"):
        needed = [p for p in (ROOT / package).rglob("*") if p.suffix in (".py", ".yaml") or p.name == "py.typed"]
        missing = [str(p) for p in needed if is_ignored(str(p.relative_to(ROOT)))]
        assert needed
        assert not missing


def test_other_files_are_ignored() -> None:
    for path in (".git/HEAD", ".venv/bin/python", "tests/docs/pages.py", "plugins/tests/test_gang.py"):
        assert is_ignored(path), path
    assert is_ignored("pyscheduler/core/__pycache__/machine.cpython-313.pyc")


def test_distribution_is_installed_with_its_plugins_and_data() -> None:
    (run,) = values("RUN")
    assert "install -c constraints.txt -e .\n" in (ROOT / "Makefile").read_text()
    assert re.search(r"pip wheel .* --wheel-dir /wheels \. ", run)
    assert re.search(r"pip install .*--no-index --no-deps /wheels/\*\.whl", run)
    files = {"requirements.txt", "requirements-build.txt", "pyproject.toml", "README.md", "LICENSE"}
    assert {*files, "pyscheduler", "plugins", "manifests", "config"} == set(copied_sources())


def test_nothing_is_installed_from_an_index_without_hashes() -> None:
    (run,) = values("RUN")
    installs = re.findall(r"pip install ([^&]*)", run)
    assert len(installs) == 3
    assert all("--require-hashes -r " in words or "--no-index" in words for words in installs)
    assert "--no-build-isolation" in run, "otherwise pip downloads the newest build tools"


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_every_requirement_of_the_image_has_one_version_and_hashes(name: str) -> None:
    for requirement, hashes in requirements(name).items():
        assert "==" in requirement, requirement
        assert hashes, requirement
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in hashes)


def test_image_uses_the_versions_of_the_constraints() -> None:
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines()[1:])
    tested = {canonicalize_name(name): version for name, version in pins.items()}
    installed = {Requirement(each).name: Requirement(each) for each in requirements("requirements.txt")}
    assert all(
        tested[canonicalize_name(name)] in requirement.specifier
        for name, requirement in installed.items()
        if name in tested
    )
    needed = {canonicalize_name(name) for name in required(["pyscheduler"])}
    assert needed <= {canonicalize_name(name) for name in installed}


def test_build_requirements_are_new_enough() -> None:
    (minimum,) = re.findall(r'^requires = \["setuptools>=(\d+)"\]', (ROOT / "pyproject.toml").read_text(), re.M)
    (pinned,) = requirements("requirements-build.txt")
    assert int(pinned.split("==")[1].split(".")[0]) >= int(minimum)


def test_both_stages_use_one_python_pinned_by_digest() -> None:
    images = [rest.split()[0].split("@") for rest in values("FROM")]
    (builder, _), (runtime, _) = images
    assert runtime.replace("-slim", "") == builder, "they differ in the compiler only"
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for _, digest in images)


def requirements(name: str) -> dict[str, list[str]]:
    """Return the requirements of a file, each with its hashes."""
    joined = (ROOT / name).read_text().replace("\\\n", "")
    lines = [line.split("--hash=") for line in joined.splitlines() if not line.startswith("#")]
    return {requirement.strip(): [each.strip() for each in hashes] for requirement, *hashes in lines}


def test_readme_of_the_metadata_is_copied_sources() -> None:
    readme = re.search(r'^readme = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert readme
    assert readme[1] in copied_sources()


def test_image_matches_the_deployment() -> None:
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


def test_image_has_the_version_of_the_package() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version
    images = yaml.safe_load((ROOT / "manifests" / "base" / "kustomization.yaml").read_text())["images"]
    assert images[0]["newTag"] == version[1]
    chart = yaml.safe_load((HELM_CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version[1], version[1])
    for page in ("README.md", "docs/install.md", "CHANGELOG.md", "Dockerfile"):
        assert version[1] in (ROOT / page).read_text(), page
