"""Kubeconfig of the embedded server, for kubectl and every other client."""

from __future__ import annotations

from pathlib import Path

import yaml

from pyscheduler.private_file import write_private

NAME = "embedded"


def kubeconfig_text(url: str, token: str, namespace: str = "default") -> str:
    """Return a kubeconfig for the server at `url`.

    The server does not authenticate; the token identifies the client at components that review tokens here.
    """
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": NAME, "cluster": {"server": url}}],
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
            "users": [{"name": NAME, "user": {"token": token}}],
            "current-context": NAME,
        },
        sort_keys=False,
    )


def embedded_server(text: str) -> str | None:
    """Return the URL of the server if the text is a kubeconfig of this module and nothing else, otherwise None."""
    try:
        document = yaml.safe_load(text)
        (cluster,), (user,) = document["clusters"], document["users"]
        if (cluster["name"], user["name"]) == (NAME, NAME):
            return str(cluster["cluster"]["server"])
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        pass
    return None


def write_kubeconfig(path: str | Path, url: str, token: str) -> Path:
    """Write the kubeconfig to `path` with mode 0600, as kubectl requires, and return the path."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_private(target, kubeconfig_text(url, token).encode())
    return target
