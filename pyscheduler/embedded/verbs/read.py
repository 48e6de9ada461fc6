"""Get and list: the current state or that at a resourceVersion, in pages if requested."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Key
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.selectors import Test, field_test, label_test
from pyscheduler.embedded.server_state import ServerState
from pyscheduler.embedded.status import (
    ApiStatusError,
    Cause,
    bad_request,
    expired,
    forbidden_value,
    invalid,
    too_large_revision,
    unsupported,
)

_MATCHES = ("Exact", "NotOlderThan")
_STALE_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)


@dataclass(frozen=True)
class ListOptions:
    """The query parameters of list and watch."""

    revision: str = ""
    match: str = ""
    labels: Test | None = None
    fields: Test | None = None
    limit: int = 0
    token: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: float | None = None
    """Seconds after which the server ends a watch."""

    def selects(self, version: Version) -> bool:
        """Return True if both selectors match."""
        return (self.labels is None or self.labels(version.object)) and (
            self.fields is None or self.fields(version.object)
        )

    @property
    def selective(self) -> bool:
        """True if there is a selector."""
        return self.labels is not None or self.fields is not None


@dataclass(frozen=True)
class ListPage:
    """One page of a list as of `revision`: `token` continues it, `remaining` objects follow (None: not counted)."""

    items: list[Version]
    revision: int
    token: str = ""
    remaining: int | None = None


def list_options(resource: Resource, query: Mapping[str, str]) -> ListOptions:
    """Return the options in a query string. ApiStatusError 400 or 422 if they are invalid."""
    initial = query.get("sendInitialEvents")
    options = ListOptions(
        revision=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        labels=label_test(query.get("labelSelector", "")),
        fields=field_test(query.get("fieldSelector", ""), resource.fields),
        limit=_number(query, "limit"),
        token=query.get("continue", ""),
        watch=_truth(query.get("watch")),
        bookmarks=_truth(query.get("allowWatchBookmarks")),
        initial_events=None if initial is None else _truth(initial),
        timeout=_number(query, "timeoutSeconds") or None,
    )
    causes = list(_contradictions(options))
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)
    return options


def _truth(text: str | None) -> bool:
    return text is not None and text.lower() in {"", "1", "t", "true"}


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "") or "0"
    try:
        return int(text)
    except ValueError:
        raise bad_request(f"{name} {text!r} is not a number") from None


def _contradictions(options: ListOptions) -> Iterator[Cause]:
    """Yield the causes of apimachinery's validation.ValidateListOptions."""
    if options.initial_events is not None:
        if not options.watch:
            yield forbidden_value("sendInitialEvents", "sendInitialEvents is forbidden for list")
        if options.match != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            yield forbidden_value("resourceVersionMatch", why)
    elif options.watch and options.match:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        yield forbidden_value("resourceVersionMatch", why)
    elif options.match and not options.revision:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        yield forbidden_value("resourceVersionMatch", why)
    if options.match and options.token:
        why = "resourceVersionMatch is forbidden when continue is provided"
        yield forbidden_value("resourceVersionMatch", why)
    if options.match and options.match not in _MATCHES:
        yield unsupported("resourceVersionMatch", options.match, _MATCHES)
    if options.match == "Exact" and options.revision == "0":
        yield forbidden_value(
            "resourceVersionMatch", 'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'
        )


def revision_number(text: str) -> int:
    """Return a resourceVersion parameter as a number, 0 if it is empty. ApiStatusError 400 if it is not a number."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f"resourceVersion: Invalid value: {json.dumps(text)}: not a resource version of this server")
    return int(text)


def list_page(state: ServerState, resource: Resource, namespace: str, options: ListOptions) -> ListPage:
    """Return one page of the objects that the options select."""
    wanted = revision_number(options.revision)
    if wanted > state.store.revision:
        raise too_large_revision(wanted, state.store.revision)
    if options.token:
        return _following_page(state, resource, namespace, options)
    exact = options.match == "Exact" or (options.limit and wanted and not options.match)
    if exact:
        versions = state.store.scan_at(resource.bucket, wanted, namespace)
        return _cut(versions, options, wanted)
    # Like the real server's cache, a list of "any" revision is returned completely, whatever its limit.
    limited = options if options.revision != "0" else _unlimited(options)
    return _cut(state.store.scan(resource.bucket, namespace), limited, state.store.revision)


def _unlimited(options: ListOptions) -> ListOptions:
    return ListOptions(labels=options.labels, fields=options.fields)


def _following_page(state: ServerState, resource: Resource, namespace: str, options: ListOptions) -> ListPage:
    if options.revision not in {"", "0"}:
        raise bad_request("specifying resource version is not allowed when using continue")
    revision, after = _read_token(options.token)
    try:
        versions = state.store.scan_at(resource.bucket, revision, namespace, after)
    except ApiStatusError as error:
        raise (expired(_STALE_CONTINUE) if error.code == 410 else error) from None
    return _cut(versions, options, revision)


def _cut(versions: Iterator[Version], options: ListOptions, revision: int) -> ListPage:
    chosen = list(versions) if not options.selective else [v for v in versions if options.selects(v)]
    if not options.limit or len(chosen) <= options.limit:
        return ListPage(chosen, revision)
    items = chosen[: options.limit]
    left = None if options.selective else len(chosen) - options.limit
    return ListPage(items, revision, _make_token(revision, items[-1].key), left)


def _make_token(revision: int, key: Key) -> str:
    content = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": key})
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, Key]:
    try:
        content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = content["start"]
        return int(content["rv"]), (str(namespace), str(name))
    except (ValueError, KeyError, TypeError):
        raise bad_request("continue key is not valid: it is not a token of this server") from None
