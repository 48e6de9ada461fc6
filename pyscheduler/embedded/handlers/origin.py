"""Protection from requests that a web page in a browser on this machine could send to the embedded API server.

The server requires no credentials, so the loopback interface is its only protection. A page at a host name that
resolves to 127.0.0.1 (DNS rebinding) can reach it, but then the browser sends that name in Host; a page of another site
that posts to 127.0.0.1 sends its own name in Origin. `kubectl proxy` filters by `--accept-hosts` for the same reason.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web

from pyscheduler.embedded.status import ApiStatusError


def check_origin(request: web.BaseRequest, own_host: str) -> None:
    """Raise ApiStatusError 403 unless Host and Origin name this machine's loopback interface or `own_host`."""
    for header, url in (("Host", f"//{request.headers.get('Host', '')}"), ("Origin", request.headers.get("Origin"))):
        if url is not None and not _is_local(url, own_host):
            value = request.headers.get(header, "")
            raise ApiStatusError(
                403, "Forbidden", f"{header} {value!r} is not a loopback address; use localhost, 127.0.0.1 or [::1]"
            )


def _is_local(url: str, own_host: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host in ("localhost", own_host):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
