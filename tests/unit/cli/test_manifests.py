"""`pyscheduler manifests`: install manifests with an image and a namespace, and paths of installed files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pyscheduler.cli.kustomize import pod_specs
from pyscheduler.cli.manifests import FOLDERS, KUSTOMIZATIONS, manifests
from pyscheduler.config.load import loads
from pyscheduler.data import MANIFESTS

IMAGE = "registry.example.com:5000/team/pyscheduler:0.1.0"
INSTALL_PAGE = Path(__file__).parents[3] / "docs" / "install.md"
DEPLOYED = ("second-scheduler", "batch", "default-scheduler")
Json = dict[str, Any]


def run(*words: str) -> Result:
    return CliRunner().invoke(manifests, words)


def printed(*words: str) -> list[Json]:
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


def by_identity(objects: list[Json]) -> dict[tuple[str, str], Json]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


@pytest.mark.parametrize("name", DEPLOYED)
def test_deployment_has_the_image(name: str) -> None:
    (spec,) = pod_specs(printed(name, "--image", IMAGE))
    assert [container["image"] for container in spec["containers"]] == [IMAGE]


@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_every_object_has_a_kind_and_a_name(name: str) -> None:
    objects = printed(name, *(("--image", IMAGE) if name in DEPLOYED else ()))
    assert objects
    assert len(by_identity(objects)) == len(objects)


def test_configuration_is_printed_as_it_is_in_the_overlay() -> None:
    (config_map,) = (obj for obj in printed("batch", "--image", IMAGE) if obj["kind"] == "ConfigMap")
    assert config_map["data"]["config.yaml"] == (MANIFESTS / "overlays" / "batch" / "config.yaml").read_text()
    assert "  config.yaml: |\n" in run("batch", "--image", IMAGE).stdout


@pytest.mark.parametrize("name", ["second-scheduler", "batch"])
def test_namespace_is_that_of_all_objects_but_the_binding_to_a_role_of_kube_system(name: str) -> None:
    objects = printed(name, "--image", IMAGE, "--namespace", "team")
    elsewhere = [obj["metadata"]["name"] for obj in objects if obj["metadata"].get("namespace") == "kube-system"]
    assert elsewhere == ["pyscheduler-authentication-reader"]
    assert {subject["namespace"] for obj in objects for subject in obj.get("subjects", ())} == {"team"}
    (config_map,) = (obj for obj in objects if obj["kind"] == "ConfigMap")
    election = loads(config_map["data"]["config.yaml"]).configuration.leader_election
    assert (election.resource_namespace, election.resource_name) == ("team", "pyscheduler")
    (spec,) = pod_specs(objects)
    assert config_map["metadata"]["name"] in {volume.get("configMap", {}).get("name") for volume in spec["volumes"]}


def test_objects_are_written_in_the_order_of_their_creation(tmp_path: Path) -> None:
    target = tmp_path / "new"
    result = run("second-scheduler", "--image", IMAGE, "--output", str(target))
    assert result.stdout == f"13 objects written; kubectl apply -f {target}\n"
    written = [yaml.safe_load(file.read_text()) for file in sorted(target.iterdir())]
    assert written == printed("second-scheduler", "--image", IMAGE)
    assert written[0]["kind"] == "CustomResourceDefinition"


@pytest.mark.parametrize("name", FOLDERS)
def test_path_of_a_folder_is_printed_or_the_folder_copied(name: str, tmp_path: Path) -> None:
    path = Path(run(name).stdout.removesuffix("\n"))
    assert path.is_dir()
    copy = tmp_path / "copy"
    assert run(name, "--output", str(copy)).stdout == f"{copy}\n"
    assert sorted(p.name for p in copy.iterdir()) == sorted(p.name for p in path.iterdir())


def test_examples_are_those_of_the_repository() -> None:
    names = {path.name for path in Path(run("examples").stdout.strip()).glob("*.yaml")}
    assert names == {"deployment.yaml", "gang.yaml", "job.yaml", "qos.yaml"}


PROBLEMS = [
    pytest.param(["second-scheduler"], "--image: is required", id="no image"),
    pytest.param(["second-scheduler", "--image", "a b"], "--image: 'a b' is not an image", id="bad image"),
    pytest.param(["crds", "--image", "a"], "--image: crds has none", id="image without a Deployment"),
    pytest.param(["examples", "-n", "a"], "--namespace: examples has none", id="namespace of a folder"),
    pytest.param(
        ["default-scheduler", "--image", "a", "-n", "team"], "default-scheduler runs in kube-system only", id="fixed"
    ),
    pytest.param(["batch", "--image", "a", "-n", "A_B"], "'A_B' is not the name of a namespace", id="bad namespace"),
    pytest.param(["nope"], "'nope' is not one of", id="unknown name"),
]


@pytest.mark.parametrize(("words", "message"), PROBLEMS)
def test_wrong_usage_is_reported(words: list[str], message: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr.replace("Invalid value for ", "")


def test_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    for words in (["examples"], ["crds"]):
        problem = run(*words, "--output", str(tmp_path)).exception
        assert str(problem) == f"--output: {tmp_path}: exists already; name a new folder"


@pytest.mark.parametrize("text", ["1e3", "-1.5E+7", "y", "N"])
def test_text_that_other_parsers_read_as_a_number_or_boolean_is_quoted(text: str) -> None:
    from pyscheduler.cli.manifests import _to_yaml

    assert _to_yaml([{"a": text}]) == f'a: "{text}"\n'


@pytest.mark.parametrize("name", DEPLOYED)
def test_documented_removal_deletes_every_object_but_the_crds(name: str) -> None:
    """With the CRD of PodGroups, all PodGroups of the cluster would be deleted."""
    (command,) = (line for line in INSTALL_PAGE.read_text().splitlines() if line.startswith("kubectl delete "))
    *_, label, kinds = command.split()
    key, value = label.split("=")
    left = [
        obj["kind"]
        for obj in printed(name, "--image", IMAGE)
        if obj["metadata"].get("labels", {}).get(key) != value or f"{obj['kind'].lower()}s" not in kinds.split(",")
    ]
    assert set(left) <= {"CustomResourceDefinition"}
    assert "customresourcedefinition" not in kinds
