"""Compatibility flags of kube-scheduler: supported, ignored with a warning, or rejected."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

import pyscheduler
from pyscheduler.cli.compat import IGNORED, Ignored
from pyscheduler.cli.program import app
from pyscheduler.config.loaded import LoadedConfig

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {qps: 7, kubeconfig: of-the-file}
"""


class Start(NamedTuple):
    """Arguments that the scheduler is started with."""

    config: LoadedConfig
    server: tuple[Path | None, str]
    review_ttls: tuple[float, float, float]
    max_unschedulable_seconds: float
    flags: dict[str, Any]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Start]:
    recorded: list[Start] = []

    async def record(config: LoadedConfig, process: Any, serving: Any, _: Any) -> int:
        server, longest = (process.kubeconfig, process.server), process.max_unschedulable_seconds
        recorded.append(Start(config, server, serving.review_ttls, longest, process.flags()))
        return 0

    monkeypatch.setattr(import_module("pyscheduler.cli.run"), "_run", record)
    return recorded


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    return path


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["run", *args])


def test_defaults_are_those_of_kube_scheduler(starts: list[Start]) -> None:
    assert run().exit_code == 0
    (start,) = starts
    assert (start.server, start.review_ttls, start.max_unschedulable_seconds) == ((None, ""), (10.0,) * 3, 300.0)
    assert start.config.configuration.enable_profiling is True


def test_deprecated_flags_apply_without_a_file(starts: list[Start]) -> None:
    flags = ["--kube-api-qps=5.5", "--kube-api-burst=9", "--kube-api-content-type=application/json"]
    assert run(*flags, "--profiling=false").exit_code == 0
    configuration = starts[0].config.configuration
    connection = configuration.client_connection
    assert (connection.qps, connection.burst, connection.content_type) == (5.5, 9, "application/json")
    assert (configuration.enable_profiling, configuration.enable_contention_profiling) == (False, False)


def test_deprecated_flags_are_ignored_with_a_file(starts: list[Start], file: Path) -> None:
    result = run("--config", str(file), "--kube-api-qps=5", "--profiling=false")
    assert result.exit_code == 0
    configuration = starts[0].config.configuration
    assert (configuration.client_connection.qps, configuration.enable_profiling) == (7, True)
    assert "ignored with --config: flags for clientConnection, enableProfiling" in result.output


def test_master_overrides_the_kubeconfig(starts: list[Start], file: Path) -> None:
    run("--master=https://a:1")
    run("--config", str(file), "--master=https://a:1")
    run("--config", str(file), "--kubeconfig=of-the-flag")
    assert [start.server for start in starts] == [
        (None, "https://a:1"),
        (Path("of-the-file"), "https://a:1"),
        (Path("of-the-flag"), ""),
    ]


def test_durations_are_parsed(starts: list[Start]) -> None:
    run(
        *("--authentication-token-webhook-cache-ttl=1s", "--authorization-webhook-cache-authorized-ttl=2m"),
        *("--authorization-webhook-cache-unauthorized-ttl=300ms", "--pod-max-in-unschedulable-pods-duration=1m"),
    )
    run("--pod-max-in-unschedulable-pods-duration=0")
    assert [(start.review_ttls, start.max_unschedulable_seconds) for start in starts] == [
        ((1.0, 120.0, 0.3), 60.0),
        ((10.0, 10.0, 10.0), 300.0),
    ]


@pytest.mark.parametrize("flag", IGNORED, ids=lambda flag: flag.name)
def test_flag_without_effect_logs_a_warning(starts: list[Start], flag: Ignored) -> None:
    result = run(f"--{flag.name}" if flag.switch else f"--{flag.name}=5")
    assert (result.exit_code, len(starts)) == (0, 1)
    assert f"--{flag.name} has no effect: {flag.why}" in result.output


def test_ignored_flag_set_to_false_logs_nothing(starts: list[Start]) -> None:
    result = run("--permit-port-sharing=false", "--log-json-split-stream=false")
    assert (len(starts), result.output) == (1, "")


@pytest.mark.parametrize(
    "flag",
    [
        "--emulated-version=1.37",
        "--emulated-version=1.36",
        "--emulated-version=kube=v1.36.3",
        "--min-compatibility-version=1.36",
        "-v=2",
    ],
)
def test_flag_that_matches_the_behaviour_is_accepted(starts: list[Start], flag: str) -> None:
    assert run(flag).exit_code == 0
    assert len(starts) == 1


@pytest.mark.parametrize(
    ("flags", "scoring"),
    [
        ([], True),
        (["--emulated-version=1.37"], True),
        (["--emulated-version=1.36"], False),
        (["--emulated-version=1.36", "--feature-gates=StorageCapacityScoring=true"], True),
    ],
)
def test_emulated_version_sets_the_defaults_of_the_gates(starts: list[Start], flags: list[str], scoring: bool) -> None:
    assert run(*flags).exit_code == 0
    assert starts[0].config.gates.on("StorageCapacityScoring") is scoring


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--emulated-version=1.35", "1.35 is not supported, only 1.36 and 1.37 are"),
        ("--min-compatibility-version=1.30", "1.30 is not supported"),
        ("--tls-sni-cert-key=a.crt,a.key", "SNI certificates are not supported"),
        ("--tls-curve-preferences=CurveP384", "OpenSSL selects the curves"),
        ("--pod-max-in-unschedulable-pods-duration=soon", '"soon" is not a duration'),
        ("--kube-api-qps=many", "'many' is not a valid float"),
        ("--profiling=perhaps", "'perhaps' is neither true nor false"),
        ("-v=lots", "--v"),
    ],
)
def test_unsupported_or_invalid_flag_is_wrong_usage(starts: list[Start], flag: str, message: str) -> None:
    result = run(flag)
    assert (result.exit_code, starts) == (2, [])
    assert flag.partition("=")[0] in result.output
    assert message in result.output


def test_version_is_printed_and_nothing_started(starts: list[Start]) -> None:
    result = run("--version")
    assert (result.exit_code, starts) == (0, [])
    assert result.output == f"pyscheduler {pyscheduler.__version__} (Kubernetes v1.37)\n"


def test_all_flags_are_available_by_name(starts: list[Start]) -> None:
    run("--secure-port=0", "--leader-elect", "--feature-gates=PodSchedulingReadiness=true")
    flags = starts[0].flags
    assert (flags["secure-port"], flags["leader-elect"], flags["v"]) == (0, True, 0)
    assert flags["feature-gates"] == ("PodSchedulingReadiness=true",)
    assert "config" in flags
    assert "version" not in flags
