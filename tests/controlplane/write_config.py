"""Effective configuration of the real kube-scheduler: it loads, defaults and validates a file, writes it, and exits.

It needs no API server: the configured address has no listener.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import yaml

KUBECONFIG = "KUBECONFIG"
"""Placeholder in a configuration for the path of an existing kubeconfig."""
_NOWHERE = "http://127.0.0.1:1"
_SECONDS = 60
_FLAGS = (f"--master={_NOWHERE}", "--secure-port=0", "--logging-format=json", "--v=2")
_PLUGINS = "the scheduler starts to work with those plugins"


class Answer(NamedTuple):
    """`error` is "" if the file is valid; then `written` is the configuration with every default.

    `plugins` has name and weight of the plugins in order, by extension point, for each profile.
    """

    error: str
    written: dict[str, Any] = {}  # noqa: RUF012 - results are not modified
    plugins: tuple[dict[str, list[tuple[str, int]]], ...] = ()


def ask(program: Path, text: str, folder: Path) -> Answer:
    """Run kube-scheduler with a configuration and return the result; files are written to `folder`."""
    file, written = folder / "config.yaml", folder / "written.yaml"
    file.write_text(located(text, folder))
    written.unlink(missing_ok=True)
    command = [str(program), f"--config={file}", f"--write-config-to={written}", *_FLAGS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    if done.returncode:
        return Answer(next(line["err"] for line in reversed(lines) if "err" in line))
    plugins = tuple(_by_point(line["Plugins"]) for line in lines if line["msg"] == _PLUGINS)
    return Answer("", yaml.safe_load(written.read_text()), plugins)


def located(text: str, folder: Path) -> str:
    """Return a configuration with the path of a kubeconfig in place of the placeholder."""
    if KUBECONFIG not in text:
        return text
    kubeconfig = folder / "kubeconfig.yaml"
    cluster = {"name": "nowhere", "cluster": {"server": _NOWHERE}}
    context = {"name": "nowhere", "context": {"cluster": "nowhere", "user": ""}}
    content = {"kind": "Config", "apiVersion": "v1", "clusters": [cluster], "contexts": [context]}
    kubeconfig.write_text(yaml.safe_dump({**content, "current-context": "nowhere"}))
    return text.replace(KUBECONFIG, str(kubeconfig))


def _by_point(plugins: dict[str, Any]) -> dict[str, list[tuple[str, int]]]:
    """Return the plugins of a profile by the extension points' names in configurations."""
    return {
        point[0].lower() + point[1:]: [(one["Name"], one["Weight"]) for one in plugin_set["Enabled"] or ()]
        for point, plugin_set in plugins.items()
    }
