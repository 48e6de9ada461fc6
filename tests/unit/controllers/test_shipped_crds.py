"""CRDs that `pyscheduler up` installs equal those of the manifests."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

MANIFESTS = Path(__file__).parents[3] / "manifests" / "base" / "crds"


def test_packaged_crds_equal_those_of_the_manifests() -> None:
    shipped = {f.name: f.read_text() for f in (resources.files("pyscheduler.controllers") / "crds").iterdir()}
    assert shipped == {f.name: f.read_text() for f in MANIFESTS.iterdir()}
