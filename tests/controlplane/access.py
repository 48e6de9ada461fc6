"""Credentials of the control plane: the certificate authority's files and the kubeconfigs made from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.certs import Authority, in_base64, service_account_keys, write_secret

SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "10.96.0.1")  # the second is the first of the service range, the `kubernetes` service
ADMIN_GROUP = "system:masters"


class Access:
    """Keys of one control plane, in `folder`, and kubeconfigs for its users."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = Authority()
        self.authority = folder / "ca.crt"
        self.authority.write_text(self._authority.certificate)
        server = self._authority.server(SERVER_NAMES, SERVER_ADDRESSES)
        self.server_certificate, self.server_key = server.write(folder, "server")
        private, public = service_account_keys()
        self.service_account_private, self.service_account_public = folder / "sa.key", folder / "sa.pub"
        write_secret(self.service_account_private, private)
        self.service_account_public.write_text(public)

    def for_user(self, server: str, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig with a client certificate for `user` in `groups`; `server` is the API server's URL."""
        pair = self._authority.client(user, groups)
        entry = {
            "client-certificate-data": in_base64(pair.certificate),
            "client-key-data": in_base64(pair.key),
        }
        return self._written(server, user, entry)

    def for_token(self, server: str, user: str, token: str) -> Path:
        """Write a kubeconfig with a bearer token."""
        return self._written(server, user, {"token": token})

    def _written(self, server: str, user: str, entry: dict[str, str]) -> Path:
        cluster = {"server": server, "certificate-authority-data": in_base64(self._authority.certificate)}
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "controlplane", "cluster": cluster}],
            "users": [{"name": user, "user": entry}],
            "contexts": [{"name": "controlplane", "context": {"cluster": "controlplane", "user": user}}],
            "current-context": "controlplane",
        }
        path = self._folder / f"{user.replace(':', '_').replace('/', '_')}.kubeconfig"
        path.unlink(missing_ok=True)
        write_secret(path, yaml.safe_dump(document))
        return path
