"""Objects of the plugins and volumes of a Volcano Job."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from pyscheduler.controllers.volcano import job_objects
from pyscheduler.controllers.volcano.job_spec import JobSpec, read_spec
from pyscheduler.controllers.volcano.plugin_objects import controlled_resources, plugin_objects, size_problem
from tests.unit.controllers.volcano.jobs import job, task

Json = dict[str, Any]


def spec_of(manifest: Json) -> JobSpec:
    spec = read_spec(manifest)
    assert isinstance(spec, JobSpec), spec
    return spec


def objects(manifest: Json, controlled: dict[str, str] | None = None) -> dict[tuple[str, str], Json]:
    """Return the objects of a Job by kind and name."""
    made = list(plugin_objects(manifest, spec_of(manifest), controlled or {}))
    owners = [each["metadata"]["ownerReferences"][0] for each in made]
    assert all((each["uid"], each["controller"]) == ("job-uid", True) for each in owners)
    return {(each["kind"], each["metadata"]["name"]): each for each in made}


def labels_of(manifest: Json, task_index: int = 0) -> Json:
    spec = spec_of(manifest)
    pod = job_objects.pod(manifest, spec, spec.tasks[task_index], 0, version=0, retries=0)
    labels: Json = pod["metadata"]["labels"]
    return labels


def test_plugin_svc_has_the_host_names() -> None:
    manifest = job(task("a", 2), task("b-c", 1), plugins={"svc": []})
    made = objects(manifest)
    assert made["ConfigMap", "j-svc"]["data"] == {
        "a.host": "j-a-0.j\nj-a-1.j", "VC_A_HOSTS": "j-a-0.j,j-a-1.j", "VC_A_NUM": "2",
        "b_c.host": "j-b-c-0.j", "VC_B_C_HOSTS": "j-b-c-0.j", "VC_B_C_NUM": "1",
    }  # fmt: skip
    service = made["Service", "j"]["spec"]
    assert service["selector"].items() <= labels_of(manifest).items()
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)


def test_pods_of_a_job_accept_connections_of_each_other() -> None:
    manifest = job(task("a", 2), plugins={"svc": []})
    policy = objects(manifest)["NetworkPolicy", "j-job-uid"]["spec"]
    [rule] = policy["ingress"]
    assert rule == {"from": [{"podSelector": policy["podSelector"]}]}
    assert policy["podSelector"]["matchLabels"].items() <= labels_of(manifest).items()
    assert policy["policyTypes"] == ["Ingress"]


def test_svc_arguments_disable_policy_and_not_ready_addresses() -> None:
    arguments = ["--disable-network-policy", "--publish-not-ready-addresses=false"]
    made = objects(job(task("a", 2), plugins={"svc": arguments}))
    assert set(made) == {("Service", "j"), ("ConfigMap", "j-svc")}
    assert made["Service", "j"]["spec"]["publishNotReadyAddresses"] is False


def test_secret_has_the_hosts_and_gets_new_keys() -> None:
    manifest = job(task("a", 2), task("b", 3), plugins={"ssh": ["--ssh-port=2222"]})
    manifest["spec"]["tasks"][1]["template"]["spec"] |= {"hostname": "h", "subdomain": "s"}
    secret = objects(manifest)["Secret", "j-job-uid-ssh"]
    assert set(secret["data"]) == {"config"}
    assert b64decode(secret["data"]["config"]).decode() == (
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "Host j-a-0 j-a-0.j\n  HostName j-a-0.j\n  Port 2222\n"
        "Host j-a-1 j-a-1.j\n  HostName j-a-1.j\n  Port 2222\n"
        "Host h h.s\n  HostName h.s\n  Port 2222\n"
    )


def test_keys_of_the_arguments_are_used() -> None:
    manifest = job(task("a", 1), plugins={"ssh": ["--ssh-private-key=private", "--ssh-public-key=public"]})
    data = objects(manifest)["Secret", "j-job-uid-ssh"]["data"]
    del data["config"]
    files = {name: b64decode(text).decode() for name, text in data.items()}
    assert files == {"id_rsa": "private", "id_rsa.pub": "public", "authorized_keys": "public"}


def test_secret_is_created_once() -> None:
    manifest = job(task("a", 1), plugins={"ssh": []})
    controlled = controlled_resources(manifest, spec_of(manifest))
    assert controlled == {"plugin-ssh": "j-job-uid-ssh"}
    assert objects(manifest, controlled) == {}


def test_secret_is_created_for_job_that_volcano_started() -> None:
    manifest = job(task("a", 1), plugins={"ssh": []})
    assert set(objects(manifest, {"plugin-ssh": "ssh"})) == {("Secret", "j-job-uid-ssh")}


def test_head_of_ray_has_a_service() -> None:
    manifest = job(task("worker", 1), task("main", 1), plugins={"ray": ["--head=main", "--clientPort=1"]})
    made = objects(manifest)
    assert set(made) == {
        ("Service", "j"), ("ConfigMap", "j-svc"), ("NetworkPolicy", "j-job-uid"), ("Service", "j-head-svc"),
    }  # fmt: skip
    service = made["Service", "j-head-svc"]["spec"]
    assert service["selector"].items() <= labels_of(manifest, 1).items()
    assert not service["selector"].items() <= labels_of(manifest, 0).items()
    assert [(port["name"], port["port"], port["targetPort"]) for port in service["ports"]] == [
        ("gcs", 6379, 6379), ("dashboard", 8265, 8265), ("client-server", 1, 1),
    ]  # fmt: skip


def test_claims_of_volumes_are_created() -> None:
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"mountPath": "/data", "volumeClaimName": "data"}, {"mountPath": "/out", "volumeClaim": claim}]
    made = objects(job(task("a", 1), volumes=volumes))
    assert [(name, each["spec"]) for name, each in made.items()] == [
        (("PersistentVolumeClaim", "j-job-uid-volume-1"), claim)
    ]


@pytest.mark.parametrize(
    ("plugins", "replicas", "problem"),
    [
        ({"svc": []}, 2**31 - 1, "svc: Too long: the host names of 2147483648 pods exceed the size of a ConfigMap"),
        ({"svc": []}, 10_000, "svc: Too long: the host names of 10001 pods exceed the size of a variable: "
                              "use --inject-hosts-env=false"),
        ({"svc": ["--inject-hosts-env=false"]}, 10_000, ""),
        ({"ssh": []}, 2**31 - 1, "ssh: Too long: the host names of 2147483648 pods exceed the size of a Secret"),
        ({"ssh": []}, 10_000, ""),
        ({"mpi": [], "svc": ["--inject-hosts-env=false"]}, 10_000,
         "mpi: Too long: the host names of 10001 pods exceed the size of a variable"),
        ({"tensorflow": [], "svc": ["--inject-hosts-env=false"]}, 6_000,
         "tensorflow: Too long: the host names of 6001 pods exceed the size of a variable"),
        ({"pytorch": [], "svc": ["--inject-hosts-env=false"]}, 10_000, ""),
        ({"mpi": [], "pytorch": [], "tensorflow": [], "ray": []}, 4_000, ""),
    ],
)  # fmt: skip
def test_too_many_host_names_are_rejected(plugins: Json, replicas: int, problem: str) -> None:
    manifest = job(task("master" if "ray" not in plugins else "head", 1), task("worker", replicas), plugins=plugins)
    if "ray" in plugins:
        plugins["mpi"] = ["--master=head"]
    found = size_problem(manifest, spec_of(manifest))
    assert found == (f"spec.plugins.{problem}" if problem else "")
    if not problem:
        assert objects(manifest)
