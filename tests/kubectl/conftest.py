"""An embedded server in a thread of its own, so that tests can run kubectl as a blocking command."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyscheduler.embedded import ApiServer

TIMEOUT_SECONDS = 60


class Kubectl:
    """Runs kubectl against one server."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(kubeconfig)}
        self._binary = shutil.which("kubectl") or "kubectl"

    def __call__(self, *words: str, stdin: str = "") -> str:
        """Return the standard output of a command that must succeed."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def error_of(self, *words: str, stdin: str = "") -> str:
        """Return the standard error of a command that must fail."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(words)} succeeded: {done.stdout}"
        return done.stderr

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command and return its result, whatever its exit code."""
        return subprocess.run(
            [self._binary, *words],
            input=stdin,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command that runs until the test kills it."""
        return subprocess.Popen([self._binary, *words], env=self._environment, stdout=subprocess.PIPE, text=True)


class ServerThread:
    """An `ApiServer` on an event loop in a thread."""

    def __init__(self) -> None:
        self.server = ApiServer()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.start(), self._loop).result(TIMEOUT_SECONDS)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self._loop).result(TIMEOUT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_SECONDS)
        self._loop.close()


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    home = tmp_path_factory.mktemp("home")
    thread = ServerThread()
    thread.start()
    try:
        yield Kubectl(thread.server.write_kubeconfig(home / "kubeconfig"), home)
    finally:
        thread.stop()
