"""Credentials for kopf and for the calls beside it, both from one kubeconfig or from the pod's service account."""

from __future__ import annotations

from pathlib import Path

import kopf
from kubernetes_asyncio import client, config


class ControllerProblem(Exception):
    """The controller cannot start; the message says why in one line."""


async def load(kubeconfig: Path | None, server: str = "") -> client.Configuration:
    """Where the API server is and how to prove who we are; None for inside a cluster. ControllerProblem otherwise.

    `server` goes before the address found; without a kubeconfig it is all that is known.
    """
    found = client.Configuration(host=server) if server else client.Configuration()
    if server and kubeconfig is None:
        return found
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(config_file=str(kubeconfig), client_configuration=found)
    except Exception as problem:  # the library answers a malformed file with whatever it stumbles over
        place = f"kubeconfig {kubeconfig}" if kubeconfig else "in-cluster credentials"
        raise ControllerProblem(f"{place}: {' '.join(str(problem).split())}") from None
    found.host = server or found.host
    return found


async def connection_info(found: client.Configuration) -> kopf.ConnectionInfo:
    """The same in kopf's words."""
    bearer: str | None = await found.get_api_key_with_prefix("BearerToken")
    scheme, _, token = (bearer or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=found.host or "",
        ca_path=found.ssl_ca_cert,
        insecure=not found.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        username=found.username or None,
        password=found.password or None,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
    )
