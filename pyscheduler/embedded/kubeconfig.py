"""A kubeconfig for the embedded server, so that kubectl and every other client finds it."""

from __future__ import annotations

from pathlib import Path

import yaml

from pyscheduler.private_file import write_private

NAME = "embedded"


def kubeconfig_text(url: str, token: str, namespace: str = "default") -> str:
    """A kubeconfig for the server at `url`. The server asks for no credentials; the token says who one is elsewhere."""
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


def write_kubeconfig(path: str | Path, url: str, token: str) -> Path:
    """Write the kubeconfig to `path` (readable by its owner only, as kubectl wants) and return the path."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_private(target, kubeconfig_text(url, token).encode())
    return target
