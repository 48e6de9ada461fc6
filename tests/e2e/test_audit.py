"""The comparison with the audit log finds an unused right, and a missing one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.audit import AuditedRequest, AuditLog, Right, forbidden, granted, used

ROLE = {"rules": [{"apiGroups": ["", "apps"], "resources": ["pods", "pods/status"], "verbs": ["list", "patch"]}]}
LIST, PATCH = Right("", "pods", "list"), Right("", "pods/status", "patch")


def line(user: str, verb: str, about: dict[str, str] | None, code: int = 200) -> str:
    event: dict[str, Any] = {"user": {"username": user}, "verb": verb, "responseStatus": {"code": code}}
    return json.dumps(event if about is None else {**event, "objectRef": about})


def test_rule_grants_each_verb_on_each_resource() -> None:
    assert len(granted([ROLE])) == 8
    assert {LIST, PATCH, Right("apps", "pods", "patch")} <= granted([ROLE])


def test_audit_log_is_read_as_rights(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    status = {"resource": "pods", "subresource": "status", "name": "web", "apiVersion": "v1"}
    lines = [
        line("me", "list", {"resource": "pods"}),
        line("me", "get", None),
        line("you", "delete", {"resource": "nodes"}),
        line("me", "patch", status, 403),
    ]
    (tmp_path / "audit.log").write_text("".join(f"{line}\n" for line in lines) + '{"user": {"use')
    requests = log.of("me")
    assert requests == [AuditedRequest(LIST, "", 200), AuditedRequest(PATCH, "web", 403)]
    assert forbidden(requests) == {AuditedRequest(PATCH, "web", 403)}
    assert used(requests) == {LIST}, "what is refused is no use of a right"
    assert granted([ROLE]) - used(requests) >= {PATCH}
