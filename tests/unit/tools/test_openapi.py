"""`make openapi`: definitions and kinds from the published documents, of which the samples are parts."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path, PurePath
from typing import Any

from pyscheduler.embedded.published_kinds import PUBLISHED_KINDS
from tools.openapi import BETA, DEFINITIONS, ROOT, definitions_of, packed, table_of, unpacked

LEASE = {
    "type": "object",
    "x-kubernetes-group-version-kind": [{"group": "coordination.k8s.io", "version": "v1", "kind": "Lease"}],
}
OPTIONS = {
    "type": "object",
    "x-kubernetes-group-version-kind": [
        {"group": "apps", "version": "v1", "kind": "DeleteOptions"},
        {"group": "coordination.k8s.io", "version": "v1", "kind": "DeleteOptions"},
    ],
}


def folder(root: Path) -> Path:
    files: dict[str, Any] = {
        "openapi-spec/v3/apis__coordination.k8s.io__v1_openapi.json": {
            "components": {"schemas": {"io.k8s.Lease": LEASE, "io.k8s.DeleteOptions": OPTIONS}}
        },
        "openapi-spec/v3/apis__coordination.k8s.io__v1beta1_openapi.json": {
            "components": {"schemas": {"io.k8s.Beta": {}}}
        },
        "openapi-spec/v3/version_openapi.json": {},
        "discovery/apis__coordination.k8s.io__v1.json": {
            "groupVersion": "coordination.k8s.io/v1",
            "resources": [
                {
                    "name": "leases",
                    "kind": "Lease",
                    "namespaced": True,
                    "verbs": ["create", "watch"],
                    "shortNames": ["l"],
                },
                {"name": "leases/status", "kind": "Lease", "namespaced": True, "verbs": ["get"]},
                {"name": "reviews", "kind": "Review", "namespaced": False, "verbs": ["create"]},
            ],
        },
        "discovery/apis__coordination.k8s.io__v1beta1.json": {"groupVersion": "coordination.k8s.io/v1beta1"},
    }
    for name, document in files.items():
        path = root / "api" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document), encoding="utf-8")
    return root


def test_definitions_are_those_of_stable_versions(tmp_path: Path) -> None:
    found = definitions_of(folder(tmp_path))
    assert found["definitions"] == {"io.k8s.Lease": LEASE, "io.k8s.DeleteOptions": OPTIONS}
    assert found["kinds"] == {
        "coordination.k8s.io/v1/Lease": "io.k8s.Lease",
        "coordination.k8s.io/v1/DeleteOptions": "io.k8s.DeleteOptions",
    }
    assert unpacked(packed(found)) == found
    assert packed(found) == packed(dict(reversed(found.items())))


def test_table_has_the_stored_kinds(tmp_path: Path) -> None:
    text = table_of(folder(tmp_path), "v9")
    assert 'PUBLISHED_KINDS = """\ncoordination.k8s.io/v1 Lease leases\n  namespaced l - status\n"""' in text
    assert "k8s.io/kubernetes v9" in text


def test_definitions_are_part_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["pyscheduler"]
    path = PurePath(DEFINITIONS.relative_to(ROOT / "pyscheduler"))
    assert any(path.match(pattern) for pattern in patterns)


def test_checked_in_files_are_small_and_have_the_kinds() -> None:
    raw = DEFINITIONS.read_bytes()
    assert raw[4:8] == bytes(4), "the header has no time"
    assert len(raw) < 300_000
    assert "io.k8s.api.core.v1.Pod" in unpacked(raw)["definitions"]
    assert "networking.k8s.io/v1 Ingress ingresses\n" in PUBLISHED_KINDS


def test_beta_versions_without_a_stable_one_are_part_of_the_files() -> None:
    kinds = unpacked(DEFINITIONS.read_bytes())["kinds"]
    assert {f"{version}/PodGroup" for version in BETA} <= kinds.keys()
    beta = {line.split()[0] for line in PUBLISHED_KINDS.splitlines() if "beta" in line or "alpha" in line}
    assert beta == BETA
