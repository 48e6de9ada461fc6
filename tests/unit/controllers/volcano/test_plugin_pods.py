"""Plugins and volumes of a Volcano Job add to pods what they add in Volcano."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyscheduler.controllers.volcano import job_objects
from pyscheduler.controllers.volcano.job_spec import JobSpec, read_spec
from tests.unit.controllers.volcano.jobs import job, task

Json = dict[str, Any]


def pods(manifest: Json) -> dict[str, Json]:
    """Return the specs of all pods by name."""
    spec = read_spec(manifest)
    assert isinstance(spec, JobSpec), spec
    made = [
        job_objects.pod(manifest, spec, each, i, version=0, retries=0)
        for each in spec.tasks
        for i in range(each.replicas)
    ]
    return {each["metadata"]["name"]: each["spec"] for each in made}


def variables(container: Json) -> dict[str, str]:
    """Return the variables with a value of a container."""
    return {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}


def with_init(made: Json) -> Json:
    """Return the task with an init container."""
    made["template"]["spec"]["initContainers"] = [{"name": "init", "image": "app:1"}]
    return made


def test_mpi_master_has_the_hosts_of_the_workers_and_all_pods_the_port() -> None:
    made = pods(
        job(
            with_init(task("launcher", 1)),
            with_init(task("node", 2)),
            plugins={"mpi": ["--master=launcher", "-worker", "node", "--port=2200"]},
        )
    )
    port = {"name": "mpijob-port", "containerPort": 2200}
    for name, spec in made.items():
        hosts = {"MPI_HOST": "j-node-0.j,j-node-1.j"} if name == "j-launcher-0" else {}
        for container in (*spec["initContainers"], *spec["containers"]):
            assert (container["ports"], variables(container)) == ([port], hosts)
            assert {each["mountPath"] for each in container["volumeMounts"]} == {"/etc/volcano", "/root/.ssh"}
        assert spec["subdomain"] == "j"


def test_port_of_the_template_is_kept() -> None:
    manifest = job(task("master", 1), task("worker", 1), plugins={"mpi": []})
    ports = [{"name": "mpijob-port", "containerPort": 22}], [{"name": "mpijob-port", "containerPort": 2222}]
    for each, of_task in zip(manifest["spec"]["tasks"], ports, strict=True):
        each["template"]["spec"]["containers"][0]["ports"] = of_task
    made = [spec["containers"][0]["ports"] for spec in pods(manifest).values()]
    assert made == [ports[0], [*ports[1], {"containerPort": 22}]]


def test_hosts_of_templates_with_a_host_name() -> None:
    manifest = job(task("master", 1), task("worker", 2), plugins={"mpi": []})
    manifest["spec"]["tasks"][1]["template"]["spec"] |= {"hostname": "w", "subdomain": "s"}
    assert variables(pods(manifest)["j-master-0"]["containers"][0])["MPI_HOST"] == "w.s"


@pytest.mark.parametrize(
    ("masters", "ranks"),
    [(1, {"j-master-0": "0", "j-worker-0": "1", "j-worker-1": "2", "j-extra-0": None}),
     (2, {"j-master-0": "0", "j-master-1": "1", "j-worker-0": "2", "j-worker-1": "3", "j-extra-0": None})],
)  # fmt: skip
def test_pytorch_pods_have_the_address_of_the_master_and_distinct_ranks(
    masters: int, ranks: dict[str, str | None]
) -> None:
    manifest = job(
        task("master", masters), with_init(task("worker", 2)), task("extra", 1), plugins={"pytorch": ["--port=29500"]}
    )
    found = {name: variables(spec["containers"][0]) for name, spec in pods(manifest).items()}
    assert {name: each.pop("RANK", None) for name, each in found.items()} == ranks
    shared = {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "29500", "WORLD_SIZE": str(masters + 2)}
    assert list(found.values()) == [shared] * len(ranks)
    worker = pods(manifest)["j-worker-0"]
    assert worker["containers"][0]["ports"] == [{"name": "pytorchjob-port", "containerPort": 29500}]
    assert [each["name"] for each in worker["initContainers"]] == ["init"]
    assert variables(worker["initContainers"][0]) == {}


def test_pytorch_job_without_a_master_has_no_address() -> None:
    made = pods(job(task("a", 1), plugins={"pytorch": []}))["j-a-0"]["containers"][0]
    assert (variables(made), made.get("ports")) == ({}, None)


def test_pytorch_workers_wait_for_the_master() -> None:
    arguments = ["--wait-master-enabled", "--wait-master-timeout=60", "--wait-master-image=tools:1"]
    manifest = job(task("master", 1), with_init(task("worker", 1)), plugins={"pytorch": arguments})
    made = pods(manifest)
    assert "initContainers" not in made["j-master-0"]
    init, waiting = made["j-worker-0"]["initContainers"]
    assert (init["name"], waiting["name"], waiting["image"]) == ("init", "wait-for-master", "tools:1")
    script = waiting["command"][2]
    assert ("nc -z j-master-0.j 23456" in script, "+ 60))" in script) == (True, True)
    manifest["spec"]["tasks"][1]["template"]["spec"]["initContainers"] = [{"name": "wait-for-master", "image": "x"}]
    assert [each["image"] for each in pods(manifest)["j-worker-0"]["initContainers"]] == ["x"]


def test_tensorflow_pods_have_the_cluster_and_their_place_in_it() -> None:
    manifest = job(
        task("server", 1), task("worker", 2), task("chief", 1), task("board", 1),
        plugins={"tensorflow": ["--ps=server", "--port=3333"]},
    )  # fmt: skip
    cluster = {
        "ps": ["j-server-0.j:3333"],
        "worker": ["j-worker-0.j:3333", "j-worker-1.j:3333"],
        "chief": ["j-chief-0.j:3333"],
    }
    places = {
        "j-server-0": ("ps", 0), "j-worker-0": ("worker", 0), "j-worker-1": ("worker", 1), "j-chief-0": ("chief", 0),
        "j-board-0": ("board", 0),
    }  # fmt: skip
    for name, spec in pods(manifest).items():
        kind, index = places[name]
        config = json.loads(variables(spec["containers"][0])["TF_CONFIG"])
        assert config == {"cluster": cluster, "task": {"type": kind, "index": index}}


def test_single_pod_of_tensorflow_has_no_cluster() -> None:
    made = pods(job(task("worker", 1), plugins={"tensorflow": []}))
    assert variables(made["j-worker-0"]["containers"][0]) == {}


def test_ray_containers_start_head_and_workers() -> None:
    manifest = job(
        task("head", 1), task("worker", 1), plugins={"ray": ["--workerContainer=main", "--dashboardPort=80"]}
    )
    head = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"]
    head[:] = [{"name": "head", "image": "ray:1", "command": ["sleep"]}, {"name": "other", "image": "app:1"}]
    made = pods(manifest)
    started, other = made["j-head-0"]["containers"]
    assert started["command"] == [
        "sh", "-c",
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=80 "
        "--ray-client-server-port=10001",
    ]  # fmt: skip
    assert [(each["name"], each["containerPort"]) for each in started["ports"]] == [
        ("gcs", 6379), ("dashboard", 80), ("client-server", 10001),
    ]  # fmt: skip
    assert ("command" in other, "ports" in other) == (False, False)
    [worker] = made["j-worker-0"]["containers"]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=j-head-0.j:6379"]


@pytest.mark.parametrize(
    ("arguments", "path", "mode"),
    [([], "/root/.ssh", 0o600), (["--no-root"], "/root/.ssh", 0o600),
     (["--ssh-key-file-path=/home/user/.ssh"], "/home/user/.ssh", 0o644)],
)  # fmt: skip
def test_ssh_keys_are_mounted(arguments: list[str], path: str, mode: int) -> None:
    made = pods(job(with_init(task("a", 1)), plugins={"ssh": arguments}))["j-a-0"]
    files = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
    assert made["volumes"] == [
        {
            "name": "j-ssh",
            "secret": {
                "secretName": "j-job-uid-ssh",
                "items": [{"key": file, "path": f".ssh/{file}"} for file in files],
                "defaultMode": mode,
            },
        }
    ]
    for container in (*made["initContainers"], *made["containers"]):
        assert container["volumeMounts"] == [{"name": "j-ssh", "mountPath": path, "subPath": ".ssh"}]


def test_plugin_svc_may_leave_out_the_variables() -> None:
    [container] = pods(job(task("a", 1), plugins={"svc": ["--inject-hosts-env=false"]}))["j-a-0"]["containers"]
    assert "env" not in container
    assert container["volumeMounts"] == [{"name": "j-svc", "mountPath": "/etc/volcano"}]


def test_volumes_of_the_job_are_mounted() -> None:
    volumes = [
        {"mountPath": "/data", "volumeClaimName": "data"},
        {"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteMany"]}},
    ]
    made = pods(job(with_init(task("a", 1)), volumes=volumes))["j-a-0"]
    assert made["volumes"] == [
        {"name": "job-volume-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "job-volume-1", "persistentVolumeClaim": {"claimName": "j-job-uid-volume-1"}},
    ]
    assert made["containers"][0]["volumeMounts"] == [
        {"name": "job-volume-0", "mountPath": "/data"},
        {"name": "job-volume-1", "mountPath": "/out"},
    ]
    assert "volumeMounts" not in made["initContainers"][0]
