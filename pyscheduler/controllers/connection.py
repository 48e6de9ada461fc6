"""Credentials of kopf and of status updates, from one kubeconfig or the in-cluster service account."""

from __future__ import annotations

from pathlib import Path

import kopf
from kubernetes_asyncio import client, config


class ControllerProblem(Exception):
    """The controller cannot start; the message has the reason in one line."""


async def load(kubeconfig: Path | None, server: str = "") -> client.Configuration:
    """Return the client configuration from a kubeconfig (None: in-cluster). ControllerProblem if it cannot be loaded.

    `server` overrides the address; with a server and no kubeconfig, no credentials are loaded.
    """
    configuration = client.Configuration(host=server) if server else client.Configuration()
    if server and kubeconfig is None:
        return configuration
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    except Exception as problem:  # the library raises arbitrary exceptions for malformed files
        place = f"kubeconfig {kubeconfig}" if kubeconfig else "in-cluster credentials"
        raise ControllerProblem(f"{place}: {' '.join(str(problem).split())}") from None
    configuration.host = server or configuration.host
    return configuration


async def connection_info(configuration: client.Configuration) -> kopf.ConnectionInfo:
    """Return a client configuration as kopf's ConnectionInfo."""
    bearer: str | None = await configuration.get_api_key_with_prefix("BearerToken")
    scheme, _, token = (bearer or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host or "",
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        username=configuration.username or None,
        password=configuration.password or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )
