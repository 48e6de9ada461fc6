"""Defaults of webhook configurations. The server stores them and calls no webhook."""

from __future__ import annotations

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Lookup, Rules

_SECONDS = 10
_HTTPS = 443


def default_validating(item: Json, _lookup: Lookup) -> None:
    """Set the defaults of a ValidatingWebhookConfiguration."""
    for hook in item.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", _SECONDS)
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service:
            service.setdefault("port", _HTTPS)


def default_mutating(item: Json, lookup: Lookup) -> None:
    """Set the defaults of a MutatingWebhookConfiguration."""
    default_validating(item, lookup)
    for hook in item.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


VALIDATING = Rules(default_validating)
MUTATING = Rules(default_mutating)
