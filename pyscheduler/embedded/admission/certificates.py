"""Admission of CertificateSigningRequests. They can be approved and denied; there is no signer."""

from __future__ import annotations

import base64

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.status import Cause, forbidden_value, invalid_value, required

_PEM_HEADER = b"-----BEGIN CERTIFICATE REQUEST-----"
_SERVER_FIELDS = {"username": "embedded-user", "groups": ["system:masters", "system:authenticated"]}
_DECISIONS = {"Approved", "Denied"}


def admit_request(item: Json, _lookup: Lookup) -> None:
    """Set the user that sent the request, as the server does."""
    spec = item.setdefault("spec", {})
    spec |= _SERVER_FIELDS
    for name in ("uid", "extra"):
        spec.pop(name, None)


def check_request(item: Json) -> list[Cause]:
    """Return causes where the PEM block or the usages are missing."""
    spec = item["spec"]
    causes = (
        []
        if _is_pem(spec.get("request"))
        else [invalid_value("spec.request", "", "PEM block type must be CERTIFICATE REQUEST")]
    )
    return causes if spec.get("usages") else [*causes, required("spec.usages")]


def _is_pem(text: str | None) -> bool:
    try:
        return base64.b64decode(text or "").strip().startswith(_PEM_HEADER)
    except ValueError:  # not base64, or not even ASCII
        return False


def check_request_change(new: Json, old: Json) -> list[Cause]:
    """Return a cause if the spec has changed."""
    return [] if new["spec"] == old["spec"] else [forbidden_value("spec", "field is immutable")]


def check_decision(new: Json, old: Json) -> list[Cause]:
    """Return causes where a decision is removed, or a request is both approved and denied."""
    after, before = _decisions(new), _decisions(old)
    if before - after:
        kind = min(before - after)
        return [forbidden_value("status.conditions", f'updates may not remove a condition of type "{kind}"')]
    if after == _DECISIONS:
        return [invalid_value("status.conditions", "", "Approved and Denied conditions are mutually exclusive")]
    return []


def _decisions(item: Json) -> set[str]:
    return {each.get("type") for each in (item.get("status") or {}).get("conditions") or ()} & _DECISIONS


SIGNING_REQUEST = Rules(
    on_create=admit_request,
    check=check_request,
    check_change=check_request_change,
    check_status_change=check_decision,
    name_form="path",
)
