"""`pyscheduler manifests`: the manifests that are installed with the package, ready for `kubectl apply`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import yaml

from pyscheduler import data
from pyscheduler.api.counts import counted
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.kustomize import Json, pod_specs, render

KUSTOMIZATIONS: Final = {
    "second-scheduler": "overlays/second-scheduler",
    "default-scheduler": "overlays/default-scheduler",
    "batch": "overlays/batch",
    "crds": "crds",
    "dashboard": "dashboard",
}
"""Folder of each kustomization below manifests/."""
FOLDERS: Final = {"examples": data.EXAMPLES, "helm": data.HELM_CHART, "config": data.CONFIGURATIONS}
"""Installed folders that are used by their path."""
_WITHOUT_IMAGE: Final = ("crds", "dashboard")
_NAMESPACE: Final = "kube-system"
_IMAGE: Final = "pyscheduler"
_CLIENT_CA_ROLE: Final = "extension-apiserver-authentication-reader"
"""Role of kube-system, so a binding to it cannot be in another namespace."""
_HELP: Final = """Print the manifests that install the scheduler, and the paths of examples and configurations.

\b
  second-scheduler    beside kube-scheduler, for pods with schedulerName: pyscheduler
  batch               the same for pod groups and queues, instead of it
  default-scheduler   instead of kube-scheduler, on kubeadm's control-plane nodes
  crds                kinds of Volcano and scheduler-plugins, for clusters without them
  dashboard           Grafana dashboard in a ConfigMap
  examples            path of the example workloads
  config              path of the example configurations
  helm                path of the Helm chart

\b
Install it beside kube-scheduler, and start example workloads:
  pyscheduler manifests second-scheduler --image registry.example.com/pyscheduler:0.1.0 | kubectl apply -f -
  kubectl apply -f "$(pyscheduler manifests examples)"
"""


@click.command(help=_HELP)
@click.argument("name", metavar="NAME", type=click.Choice([*KUSTOMIZATIONS, *FOLDERS]))
@click.option("--image", metavar="IMAGE", help="Image of the scheduler; required where it is deployed.")
@click.option("--namespace", "-n", metavar="NS", help=f"Existing namespace of the objects (default: {_NAMESPACE}).")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="DIR", help="Write files to a new folder, one an object."
)
def manifests(name: str, image: str | None, namespace: str | None, output: Path | None) -> None:
    if name in FOLDERS:
        _reject_options(name, image, namespace)
        click.echo(FOLDERS[name] if output is None else _copied(FOLDERS[name], output))
        return
    objects = objects_of(name, image, namespace)
    if output is None:
        click.echo(_to_yaml(objects), nl=False)
        return
    _write(objects, output)
    click.echo(f"{counted(len(objects), 'object')} written; kubectl apply -f {output}")


def objects_of(name: str, image: str | None, namespace: str | None = None) -> list[Json]:
    """Return the objects of a kustomization with an image and a namespace. BadParameter if these do not fit."""
    if name in _WITHOUT_IMAGE:
        _reject_options(name, image)
    elif not image:
        raise click.BadParameter("is required: name the image that you have built and pushed", param_hint="--image")
    elif not re.fullmatch(r"[\w.:/@-]+", image):
        raise click.BadParameter(f"{image!r} is not an image such as registry.example.com/a:1", param_hint="--image")
    if namespace is not None:
        _check_namespace(name, namespace)
    return render(data.MANIFESTS / KUSTOMIZATIONS[name], partial(_change, image=image, namespace=namespace))


def _reject_options(name: str, image: str | None, namespace: str | None = None) -> None:
    for option, value in (("--image", image), ("--namespace", namespace)):
        if value is not None:
            raise click.BadParameter(f"{name} has none", param_hint=option)


def _check_namespace(name: str, namespace: str) -> None:
    if name == "default-scheduler" and namespace != _NAMESPACE:
        raise click.BadParameter(f"default-scheduler runs in {_NAMESPACE} only", param_hint="--namespace")
    if not re.fullmatch("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", namespace):
        raise click.BadParameter(f"{namespace!r} is not the name of a namespace", param_hint="--namespace")


def _change(objects: list[Json], image: str | None, namespace: str | None) -> None:
    if image is not None:
        for spec in pod_specs(objects):
            for container in spec["containers"]:
                container["image"] = image
    if namespace is not None:
        for obj in objects:
            _move(obj, namespace)


def _move(obj: Json, namespace: str) -> None:
    """Move an object, and what it names, from kube-system to another namespace."""
    if obj["metadata"].get("namespace") == _NAMESPACE and obj.get("roleRef", {}).get("name") != _CLIENT_CA_ROLE:
        obj["metadata"]["namespace"] = namespace
    for subject in obj.get("subjects", ()):
        subject["namespace"] = namespace
    configuration = obj.get("data", {}).get("config.yaml")
    if configuration is not None:
        obj["data"]["config.yaml"] = configuration.replace(
            f"resourceNamespace: {_NAMESPACE}", f"resourceNamespace: {namespace}"
        )


def _copied(folder: Path, target: Path) -> Path:
    try:
        shutil.copytree(folder, target)
    except OSError as error:
        raise _unwritable(target, error) from None
    return target


def _write(objects: Sequence[Json], folder: Path) -> None:
    """Write each object to a file; sorted by name they are in the order of creation, as kubectl reads them."""
    try:
        folder.mkdir(parents=True)
        for number, obj in enumerate(objects, 1):
            file = folder / f"{number:02}-{obj['kind'].lower()}-{obj['metadata']['name']}.yaml"
            file.write_text(_to_yaml([obj]), encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> CommandProblem:
    reason = "exists already" if isinstance(error, FileExistsError) else error.strerror or str(error)
    return CommandProblem(f"--output: {folder}: {reason}; name a new folder")


class _Dumper(yaml.SafeDumper):
    """YAML as people write it: texts of several lines are literal blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> Any:
    style = None
    if "\n" in text:
        style = "|"
    elif re.fullmatch(r"[yYnN]|[-+]?[0-9.]+[eE][-+]?[0-9]+", text):
        style = '"'  # PyYAML reads these as text, other parsers as numbers and booleans
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def _to_yaml(objects: Sequence[Json]) -> str:
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
