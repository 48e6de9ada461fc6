"""Common credentials: certificates, tokens, token files, passwords, a pod's service account.

kubernetes_asyncio supports these too, but its import takes more time and memory than the rest of the scheduler's start.
So it is used only for exec plugins and auth providers.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_UNSUPPORTED = ("exec", "auth-provider")


class NotInCluster(Exception):
    """This process does not run in a pod; the message names what is missing."""


class RestConfig(msgspec.Struct):
    """Server address and credentials, with the field names of kubernetes_asyncio's Configuration."""

    host: str
    ssl_ca_cert: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_ssl: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    header: str = ""
    """Authorization header; "" for none."""
    token_file: Path | None = None
    """File of the token, which may be replaced at runtime."""

    async def load_and_set(self, _: object) -> None:
        """Read the token again. OSError."""
        if self.token_file is not None:
            self.header = _bearer(self.token_file.read_text())


def from_kubeconfig(cluster: Mapping[str, Any], user: Mapping[str, Any], base: Path, folder: Path) -> RestConfig | None:
    """Return the configuration of a cluster and a user of a kubeconfig in `base`; None if it needs kubernetes_asyncio.

    Certificates inlined in the kubeconfig are written to `folder`. Invalid values may raise any exception.
    """
    if any(key in user for key in _UNSUPPORTED):
        return None
    files = _Files(base, folder)
    secure = str(cluster["server"]).startswith("https")
    token_file = base / user["tokenFile"] if "tokenFile" in user and "token" not in user else None
    found = RestConfig(
        str(cluster["server"]).rstrip("/"),
        ssl_ca_cert=files.of(cluster, "certificate-authority") if secure else None,
        cert_file=files.of(user, "client-certificate") if secure else None,
        key_file=files.of(user, "client-key") if secure else None,
        verify_ssl=not cluster.get("insecure-skip-tls-verify", False),
        tls_server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
        token_file=token_file,
    )
    if token_file is not None:
        found.header = _bearer(token_file.read_text())
    elif user.get("token"):
        found.header = _bearer(str(user["token"]))
    elif "username" in user and "password" in user:
        password = f"{user['username']}:{user['password']}"
        found.header = f"Basic {base64.b64encode(password.encode()).decode()}"
    return found


def in_cluster_config(environment: Mapping[str, str] = os.environ, account: Path = SERVICE_ACCOUNT) -> RestConfig:
    """Return the configuration of the pod's service account. NotInCluster if there is none, OSError if unreadable."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise NotInCluster("Service host/port is not set")
    token, authority = account / "token", account / "ca.crt"
    for file in (token, authority):
        if not file.is_file() or not file.stat().st_size:
            raise NotInCluster(f"{file} is missing or empty")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    header = _bearer(token.read_text())
    return RestConfig(server, ssl_ca_cert=str(authority), header=header, token_file=token)


def in_cluster_namespace(account: Path = SERVICE_ACCOUNT) -> str:
    """Return the namespace of the pod's service account; "" if it cannot be read."""
    try:
        return (account / "namespace").read_text().strip()
    except (OSError, UnicodeError):
        return ""


class _Files(msgspec.Struct, frozen=True):
    """Paths of certificates and keys; inline data is written to `folder`. ValueError for invalid base64."""

    base: Path
    folder: Path

    def of(self, section: Mapping[str, Any], key: str) -> str | None:
        data = section.get(f"{key}-data")
        if data:
            file = self.folder / key
            file.write_bytes(base64.standard_b64decode(data))
            return str(file)
        named = section.get(key)
        return str(self.base / named) if named else None


def _bearer(token: str) -> str:
    return f"Bearer {token.strip()}"
