"""Files that `up` and other commands write: no file of the user is lost, and bad paths are errors before the start."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from pyscheduler.cli.program import app
from pyscheduler.embedded.kubeconfig import write_kubeconfig
from pyscheduler.private_file import write_private

PRODUCTION = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "production",
    "clusters": [{"name": "production", "cluster": {"server": "https://production.example"}}],
    "users": [{"name": "me", "user": {"token": "secret"}}],
    "contexts": [{"name": "production", "context": {"cluster": "production", "user": "me"}}],
}


def up(*words: object) -> Result:
    command = ["up", "--once", "--timeout", "5", "--nodes", "1", "--no-scheduler", *map(str, words)]
    return CliRunner().invoke(app, command, catch_exceptions=False)


def merged_with_production(embedded: str) -> str:
    ours = yaml.safe_load(embedded)
    both = {name: [*ours[name], *PRODUCTION[name]] for name in ("clusters", "users", "contexts")}
    return yaml.safe_dump({**ours, **both})


OTHERS: dict[str, Callable[[str], str]] = {
    "kubeconfig of another cluster": lambda _: yaml.safe_dump(PRODUCTION),
    "kubeconfig of ours merged with another": merged_with_production,
    "notes": lambda _: "milk\neggs\n",
    "broken YAML": lambda _: "clusters: [",
    "null": lambda _: "clusters:\nusers:\n",
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_a_file_that_up_has_not_written_is_never_overwritten(tmp_path: Path, content: Callable[[str], str]) -> None:
    file = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", "token")
    file.write_text(before := content(file.read_text()))
    problem = r"config is not from `pyscheduler up`, and would be overwritten; name a new file"
    with pytest.raises(Exception, match=problem):
        up("--kubeconfig-out", file)
    assert file.read_text() == before


def test_the_kubeconfig_of_a_cluster_that_still_runs_is_kept(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as running:
        url = f"http://127.0.0.1:{running.getsockname()[1]}"
        file = write_kubeconfig(tmp_path / "config", url, "token")
        with pytest.raises(Exception, match=f"belongs to the cluster at {url}, which still runs"):
            up("--kubeconfig-out", file)
    assert url in file.read_text()


@pytest.mark.parametrize("text", ["", None], ids=["empty file", "file of a cluster that has ended"])
def test_the_file_of_an_ended_cluster_is_replaced(tmp_path: Path, text: str | None) -> None:
    file = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", "token")
    if text is not None:
        file.write_text(text)
    assert up("--kubeconfig-out", file).exit_code == 0
    assert "http://127.0.0.1:1\n" not in file.read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("up", "--once", "--snapshot"),
        ("up", "--once", "--kubeconfig-out"),
        ("snapshot",),
        ("run", "--write-config-to"),
        ("bench", "compare", "--json"),
    ],
)
def test_folder_that_does_not_exist_is_a_usage_error_before_the_start(tmp_path: Path, words: tuple[str, ...]) -> None:
    """An error at the end would lose the state of a cluster or the results of hours."""
    result = CliRunner().invoke(app, [*words, str(tmp_path / "none" / "file")])
    assert result.exit_code == 2, result.output
    assert f"the folder {tmp_path / 'none'} does not exist" in " ".join(result.output.split())


def test_up_that_ends_at_once_leaves_no_warning() -> None:
    """Without pods to place, `--once` ends before the scheduler's first step."""
    gc.collect()  # what earlier tests left
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unraisable: list[object] = []
        hook, sys.unraisablehook = sys.unraisablehook, unraisable.append
        try:
            assert up().exit_code == 0
            gc.collect()
        finally:
            sys.unraisablehook = hook
    assert unraisable == []


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`up --snapshot state.json`, started completely."""
    words = ["up", "--nodes", "1", "--no-scheduler", "--snapshot", "state.json", "--kubeconfig-out", "kubeconfig"]
    command = [sys.executable, "-c", "from pyscheduler.cli import main; main()", *words]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the tests may run under nohup
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "get pods" in line:
            break
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_snapshot_is_written_also_when_the_terminal_is_closed(
    running: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    running.send_signal(number)
    assert running.wait(20) == 0
    assert '"kind":"Node"' in (tmp_path / "state.json").read_text()


def test_file_keeps_its_content_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "state.json"
    write_private(file, b"first")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_private(file, b"second")
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (b"first", [file])


def test_private_file_replaces_the_target_of_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("first")
    target.chmod(0o644)
    link.symlink_to(target)
    write_private(link, b"second")
    assert (link.is_symlink(), target.read_bytes(), target.stat().st_mode & 0o777) == (True, b"second", 0o600)


def test_device_is_written_in_place() -> None:
    write_private(Path("/dev/null"), b"content")
    assert Path("/dev/null").is_char_device()
