"""`make protobuf`: generate the protobuf tables from the published .proto files. `--check` compares instead of writing.

`go mod download` fetches k8s.io/api and k8s.io/apimachinery, in the versions that tests/controlplane/go.mod requires.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tools.protobuf.proto import Messages, read_package
from tools.protobuf.tables import constants, reachable

ROOT = Path(__file__).resolve().parents[2]
WIRE = ROOT / "pyscheduler/embedded/wire"
NUMBERS = ROOT / "pyscheduler/kube/protobuf_fields.py"
_META, _CORE = "k8s.io.apimachinery.pkg.apis.meta.v1", "k8s.io.api.core.v1"
_MACHINERY = ("pkg/api/resource", "pkg/apis/meta/v1", "pkg/runtime", "pkg/util/intstr")
_KINDS = {
    "core": "Node Namespace Event Service Endpoints ConfigMap Secret ServiceAccount ReplicationController PodTemplate "
    "PersistentVolume PersistentVolumeClaim LimitRange ResourceQuota Binding",
    "apps": "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision",
    "batch": "Job CronJob",
    "policy": "PodDisruptionBudget Eviction",
    "scheduling": "PriorityClass",
    "scheduling/v1beta1": "PodGroup Workload",
    "coordination": "Lease",
    "events": "Event",
    "autoscaling": "Scale HorizontalPodAutoscaler",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "networking": "NetworkPolicy Ingress IngressClass IPAddress ServiceCIDR",
    "discovery": "EndpointSlice",
    "node": "RuntimeClass",
    "certificates": "CertificateSigningRequest ClusterTrustBundle",
    "flowcontrol": "FlowSchema PriorityLevelConfiguration",
    "admissionregistration": "ValidatingWebhookConfiguration MutatingWebhookConfiguration ValidatingAdmissionPolicy "
    "ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
    "storage": "StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment VolumeAttributesClass",
    "rbac": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "authentication": "TokenReview SelfSubjectReview TokenRequest",
    "authorization": "SelfSubjectAccessReview SubjectAccessReview LocalSubjectAccessReview SelfSubjectRulesReview",
    "resource": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice DeviceTaintRule",
}
"""Kinds that the embedded API server decodes, by API group, in version v1 unless the group has another."""
_REFERENCED = ("scheduling/v1alpha3",)
"""Packages of other versions with messages that these kinds contain."""
_ENCODED = (
    *(f"k8s.io.apimachinery.pkg.runtime.{name}" for name in ("Unknown", "TypeMeta")),
    *(f"{_META}.{name}" for name in ("ObjectMeta", "MicroTime", "Status", "StatusDetails")),
    *(f"{_CORE}.{name}" for name in ("ObjectReference", "Binding")),
    *(f"k8s.io.api.events.v1.{name}" for name in ("Event", "EventSeries")),
    *(f"k8s.io.api.resource.v1.ResourceClaim{name}" for name in ("", "Status", "ConsumerReference")),
)
"""Messages that the scheduler encodes or decodes."""
_TITLES = {
    "pods": "Protobuf fields of pods and their parts, and of metadata.",
    "core": "Protobuf fields of kinds of the core group other than pods.",
    "scheduling": "Protobuf fields of kinds of scheduling.k8s.io.",
    "groups": "Protobuf fields of kinds of the other API groups.",
}


def main(arguments: list[str]) -> int:
    """Write the tables, or with --check name those that differ. Return 1 if one differs, otherwise 0."""
    folders, versions = _modules()
    files = generate(read(folders), versions)
    stale = [path for path, text in files.items() if path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'out of date' if '--check' in arguments else 'written'}")
        if "--check" not in arguments:
            path.write_text(files[path], encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


def _modules() -> tuple[dict[str, Path], str]:
    """Return the folders of the Go modules by name, and their names with versions."""
    command = ["go", "mod", "download", "-json", "k8s.io/api", "k8s.io/apimachinery"]
    run = subprocess.run(command, cwd=ROOT / "tests/controlplane", check=True, capture_output=True, text=True)
    modules = [json.loads(text) for text in run.stdout.replace("}\n{", "}\0{").split("\0")]
    folders = {module["Path"]: Path(module["Dir"]) for module in modules}
    return folders, " and ".join(f"{module['Path']} {module['Version']}" for module in modules)


def read(folders: dict[str, Path]) -> Messages:
    """Return all messages that the tables need, from the folders of the two Go modules."""
    packages = [folders["k8s.io/apimachinery"] / package for package in _MACHINERY]
    packages += [folders["k8s.io/api"] / package for package in (*map(_package, _KINDS), *_REFERENCED)]
    return {name: fields for package in packages for name, fields in read_package(package).items()}


def _package(group: str) -> str:
    return group if "/" in group else f"{group}/v1"


def generate(messages: Messages, versions: str) -> dict[Path, str]:
    """Return the text of each generated file."""
    seen: dict[str, str] = {}
    reachable(messages, [f"{_CORE}.Pod"], seen)
    pods = set(seen)
    reachable(messages, [f"{_META}.DeleteOptions"], seen)
    for group, kinds in _KINDS.items():
        package = f"k8s.io.api.{_package(group).replace('/', '.')}"
        reachable(messages, (f"{package}.{kind}" for kind in kinds.split()), seen)
    tables: dict[str, list[str]] = {name: [] for name in _TITLES}
    for name, line in seen.items():
        tables["pods" if name in pods else _part(line.split()[0])].append(line)
    source = f"Generated by `make protobuf` from the .proto files of {versions}"
    files = {WIRE / f"{part}.py": _table(part, source, lines) for part, lines in tables.items()}
    return files | {NUMBERS: _numbers(source, messages)}


def _part(message: str) -> str:
    if message.startswith("scheduling."):
        return "scheduling"
    return "groups" if "." in message else "core"


def _table(part: str, source: str, lines: list[str]) -> str:
    title = f'"""{_TITLES[part]}\n\n{source}.\n`table.py` explains the notation.\n"""\n'
    rows = "\n".join(lines)
    return f'{title}\nfrom __future__ import annotations\n\n{part.upper()} = """\n{rows}\n"""\n'


def _numbers(source: str, messages: Messages) -> str:
    title = f'"""Field numbers of the protobuf messages that the scheduler encodes and decodes.\n\n{source}.\n"""\n'
    return (
        f"{title}\nfrom __future__ import annotations\n\nfrom typing import Final\n\n\n{constants(messages, _ENCODED)}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
