"""The kinds that `pyscheduler up` installs by itself are those of the manifests, to the letter."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

MANIFESTS = Path(__file__).parents[3] / "manifests" / "base" / "crds"


def test_the_package_ships_the_manifests_own_crds() -> None:
    shipped = {f.name: f.read_text() for f in (resources.files("pyscheduler.controllers") / "crds").iterdir()}
    assert shipped == {f.name: f.read_text() for f in MANIFESTS.iterdir()}
