"""The image can be built: what it copies is there and not ignored, and it installs what the Makefile installs."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.docs.dockerfile import copied, ignored, values
from tests.docs.pages import ROOT


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


def test_both_distributions_are_installed_with_the_pinned_versions() -> None:
    (run,) = values("RUN")
    makefile = (ROOT / "Makefile").read_text()
    assert "install -c constraints.txt -e . -e plugins" in makefile
    assert re.search(r"pip wheel .* \. \./plugins\b", run)
    assert re.search(r"pip install .*-c constraints\.txt /wheels/\*\.whl", run)
    assert {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "pyscheduler", "plugins"} == set(copied())


def test_what_builds_is_pinned_too() -> None:
    (run,) = values("RUN")
    (wanted,) = re.findall(r'^requires = \["setuptools>=(\d+)"\]', (ROOT / "pyproject.toml").read_text(), re.M)
    pinned = re.search(r"pip install \S+ setuptools==(\d+)\.", run)
    assert pinned
    assert int(pinned[1]) >= int(wanted)
    assert "--no-build-isolation" in run, "else pip would fetch the newest"


def test_both_stages_are_of_one_python() -> None:
    images = [rest.split()[0] for rest in values("FROM")]
    built_in, runs_in = images
    assert runs_in.replace("-slim", "") == built_in, "the same but for the compiler"


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
