"""Admission of CustomResourceDefinitions: names, versions, and the status of an established definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.schema import structural
from pyscheduler.embedded.status import Cause, invalid_value, required, unsupported

_SCOPES = ("Cluster", "Namespaced")


def default_crd(crd: Json, _lookup: Lookup) -> None:
    """Derive singular and list kind from the kind; set the conversion strategy (None)."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def admit_crd(crd: Json, _lookup: Lookup) -> None:
    """Set the status of an established definition: new definitions are served at once."""
    spec, created = crd["spec"], crd["metadata"]["creationTimestamp"]

    def true_condition(kind: str, reason: str, message: str) -> Json:
        base = {"type": kind, "status": "True", "lastTransitionTime": created}
        return base | {"reason": reason, "message": message}

    stored = [version.get("name", "") for version in spec.get("versions") or () if version.get("storage")]
    crd["status"] = {
        "acceptedNames": spec["names"],
        "storedVersions": stored,
        "conditions": [
            true_condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            true_condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    }


def check_crd(crd: Json) -> list[Cause]:
    """Return the causes that make a definition invalid."""
    spec = crd["spec"]
    names, group = spec["names"], spec.get("group", "")
    causes = [] if group else [required("spec.group")]
    causes += [required(f"spec.names.{field}") for field in ("plural", "kind") if not names.get(field)]
    wanted = f"{names.get('plural', '')}.{group}"
    if crd["metadata"].get("name") != wanted:
        why = "must be spec.names.plural+'.'+spec.group"
        causes.append(invalid_value("metadata.name", crd["metadata"].get("name"), why))
    if spec.get("scope") not in _SCOPES:
        causes.append(unsupported("spec.scope", spec.get("scope", ""), _SCOPES))
    return causes + _check_versions(spec.get("versions") or [])


def _check_versions(versions: list[Mapping[str, Any]]) -> list[Cause]:
    causes: list[Cause] = []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        names = [version.get("name") for version in versions]
        causes.append(invalid_value("spec.versions", names, "must have exactly one version marked as storage version"))
    for index, version in enumerate(versions):
        if not version.get("name"):
            causes.append(required(f"spec.versions[{index}].name"))
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            causes.append(required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required"))
        else:
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            causes += _check_schema(version["schema"]["openAPIV3Schema"], path)
        scale = (version.get("subresources") or {}).get("scale")
        causes += _check_scale(scale, f"spec.versions[{index}].subresources.scale") if scale is not None else []
    return causes


def _check_schema(schema: Any, path: str) -> list[Cause]:
    causes = list(structural.schema_errors(schema, path))
    if causes or not structural.has_rules(schema):
        return causes
    from pyscheduler.embedded.schema.cel_rules import compile_errors  # only for servers with such rules

    return list(compile_errors(schema, path))


def _check_scale(scale: Mapping[str, str], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field, part in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        text = scale.get(field, "")
        if not text:
            causes.append(required(f"{path}.{field}"))
        elif not text.startswith(part):
            causes.append(invalid_value(f"{path}.{field}", text, f"should be a json path under {part.rstrip('.')}"))
    return causes


RULES = Rules(default_crd, admit_crd, check=check_crd)
