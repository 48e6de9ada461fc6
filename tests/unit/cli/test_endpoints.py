"""Flags of the HTTPS endpoints, and /configz."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pyscheduler.cli import endpoints
from pyscheduler.cli.endpoints import EndpointOptions
from pyscheduler.cli.program import app
from pyscheduler.config.load import loads

EXTENDER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://extender.example.com
  filterVerb: filter
  enableHTTPS: true
  tlsConfig: {certData: Y2VydA==, keyData: a2V5}
"""


def parsed(*flags: str) -> EndpointOptions:
    """Return the options that a command receives for the flags."""
    received: list[EndpointOptions] = []

    @click.command
    @endpoints.options
    def command(serving: EndpointOptions) -> None:
        received.append(serving)

    result = CliRunner().invoke(command, flags, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return received[0]


def test_defaults_are_those_of_kube_scheduler() -> None:
    defaults = parsed()
    assert (defaults.bind_address, defaults.secure_port) == ("0.0.0.0", 10259)
    assert defaults.authorization_always_allow_paths == "/healthz,/readyz,/livez"
    assert (defaults.authentication_skip_lookup, defaults.authentication_tolerate_lookup_failure) == (False, True)
    assert defaults.tls_cert_file is defaults.client_ca_file is defaults.cert_dir is None


def test_flags_have_the_syntax_of_kube_scheduler(tmp_path: Path) -> None:
    certificate, key = tmp_path / "a.crt", tmp_path / "a.key"
    certificate.touch()
    key.touch()
    files = (f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
    options = parsed(*files, "--authentication-skip-lookup=true", "--secure-port=0")
    assert (options.tls_cert_file, options.tls_private_key_file) == (certificate, key)
    assert (options.authentication_skip_lookup, options.secure_port) == (True, 0)


@pytest.mark.parametrize("flag", ["--authentication-skip-lookup=perhaps", "--secure-port=high"])
def test_invalid_flag_value_is_wrong_usage(flag: str) -> None:
    assert CliRunner().invoke(app, ["run", flag]).exit_code == 2


def test_configz_has_both_documents_and_no_private_keys() -> None:
    document = endpoints.configz(loads(EXTENDER))
    assert document["componentconfig"]["kind"] == "KubeSchedulerConfiguration"
    assert document["componentconfig"]["podMaxBackoffSeconds"] == 10
    tls = document["componentconfig"]["extenders"][0]["tlsConfig"]
    assert (tls["certData"], tls["keyData"]) == ("Y2VydA==", "(not shown)")
    assert document["pyscheduler"]["kind"] == "PySchedulerConfiguration"
