"""Files that are installed with the package: manifests with the example workloads, and configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).resolve().parent

MANIFESTS: Final = (_FOLDER / "manifests").resolve()
"""Kustomizations, CustomResourceDefinitions, the Helm chart and the example workloads."""
EXAMPLES: Final = MANIFESTS / "examples"
CONFIGURATIONS: Final = (_FOLDER / "config").resolve()
"""KubeSchedulerConfiguration files."""
HELM_CHART: Final = MANIFESTS / "helm" / "pyscheduler"
