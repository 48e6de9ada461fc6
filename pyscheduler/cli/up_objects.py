"""Objects with which a new cluster of `up` begins."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Final

import yaml

from pyscheduler.cli.manifest_files import Manifest

_DEFAULT_CLASS: Final = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: pyscheduler.io/hollow
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
"""
"""As in kind and minikube: a claim without a class, such as most charts have, is provisioned."""


def crds() -> list[Manifest]:
    """Return the CustomResourceDefinitions that the bundled plugins need."""
    folder = resources.files("pyscheduler.controllers") / "crds"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return [Manifest(f.name, yaml.safe_load(f.read_text(encoding="utf-8"))) for f in files]


def storage_classes(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return the default StorageClass of a new cluster; nothing if the manifests have a class."""
    has_class = any(manifest.kind[1] == "StorageClass" for manifest in manifests)
    return [] if has_class else [Manifest("standard", yaml.safe_load(_DEFAULT_CLASS))]
