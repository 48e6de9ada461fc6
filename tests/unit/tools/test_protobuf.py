"""`make protobuf`: tables of protobuf fields from .proto files. The samples are parts of k8s.io/api v0.36.3."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.embedded.wire.core import CORE as CORE_TABLE
from pyscheduler.embedded.wire.pods import PODS
from pyscheduler.kube import protobuf_fields
from tools.protobuf.proto import Messages, read_package
from tools.protobuf.tables import constants, reachable

CORE = "k8s.io.api.core.v1"
PROTO = """
syntax = "proto2";

package k8s.io.api.core.v1;

import "k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto";

// Binding ties one object to another.
message Binding {
  // Standard object's metadata.
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;

  // The target object that you want to bind to the standard object.
  optional ObjectReference target = 2;
}

message ObjectReference {
  optional string kind = 1;
  optional string namespace = 2;
  optional string name = 3;
  optional string uid = 4;
  optional string apiVersion = 5;
  optional string resourceVersion = 6;
  optional string fieldPath = 7;
}

message Probe {
  optional ProbeHandler handler = 1;
  optional int32 initialDelaySeconds = 2;
  optional int32 timeoutSeconds = 3;
  optional int32 periodSeconds = 4;
  optional int32 successThreshold = 5;
  optional int32 failureThreshold = 6;
  optional int64 terminationGracePeriodSeconds = 7;
}

message ProbeHandler {
  optional ExecAction exec = 1;
  optional HTTPGetAction httpGet = 2;
  optional TCPSocketAction tcpSocket = 3;
  optional GRPCAction grpc = 4;
}

message ExecAction {
  repeated string command = 1;
}

message Secret {
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;
  map<string, bytes> data = 2;
  optional string type = 3;
  map<string, string> stringData = 4;
  optional bool immutable = 5;
}

message ResourceQuotaStatus {
  map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> hard = 1;
  map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> used = 2;
}

message Taint {
  optional string key = 1;
  optional string value = 2;
  optional string effect = 3;
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.Time timeAdded = 4;
}
"""
GO = """
package v1

type Probe struct {
	// The action taken to determine the health of a container
	ProbeHandler `json:",inline" protobuf:"bytes,1,opt,name=handler"`
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty" protobuf:"varint,2,opt,name=initialDelaySeconds"`
	TerminationGracePeriodSeconds *int64 `json:"..." protobuf:"varint,7,opt,name=terminationGracePeriodSeconds"`
}

type ProbeHandler struct {
	Exec *ExecAction `json:"exec,omitempty" protobuf:"bytes,1,opt,name=exec"`
	HTTPGet *HTTPGetAction `json:"httpGet,omitempty" protobuf:"bytes,2,opt,name=httpGet"`
	TCPSocket *TCPSocketAction `json:"tcpSocket,omitempty" protobuf:"bytes,3,opt,name=tcpSocket"`
	GRPC *GRPCAction `json:"grpc,omitempty" protobuf:"bytes,4,opt,name=grpc"`
}

type Secret struct {
	Data map[string][]byte `json:"data,omitempty" protobuf:"bytes,2,rep,name=data"`
	Immutable *bool `json:"immutable,omitempty" protobuf:"varint,5,opt,name=immutable"`
}

type Taint struct {
	TimeAdded *metav1.Time `json:"timeAdded,omitempty" protobuf:"bytes,4,opt,name=timeAdded"`
}
"""


def sample(folder: Path, proto: str = PROTO) -> Messages:
    (folder / "generated.proto").write_text(proto, encoding="utf-8")
    (folder / "types.go").write_text(GO, encoding="utf-8")
    return read_package(folder)


@pytest.mark.parametrize("tag", [",inline", ""])
def test_fields_of_an_embedded_struct_are_inlined(tmp_path: Path, tag: str) -> None:
    (tmp_path / "generated.proto").write_text(PROTO, encoding="utf-8")
    (tmp_path / "types.go").write_text(GO.replace('json:",inline"', f'json:"{tag}"'), encoding="utf-8")
    (handler, *_) = read_package(tmp_path)[f"{CORE}.Probe"]
    assert (handler.name, handler.inline) == ("handler", True)


def test_table_is_written_in_its_notation(tmp_path: Path) -> None:
    seen: dict[str, str] = {}
    reachable(sample(tmp_path), [f"{CORE}.Probe", f"{CORE}.Secret"], seen)
    assert list(seen.values()) == [
        "Probe 1=:m:ProbeHandler 2=initialDelaySeconds:i 3=timeoutSeconds:i 4=periodSeconds:i 5=successThreshold:i\n"
        "  6=failureThreshold:i 7=terminationGracePeriodSeconds:I",
        "ProbeHandler 1=exec:M:ExecAction 2=httpGet:M:HTTPGetAction 3=tcpSocket:M:TCPSocketAction 4=grpc:M:GRPCAction",
        "ExecAction 1=command:[s",
        "Secret 1=metadata:m:ObjectMeta 2=data:{y 3=type:s 4=stringData:{s 5=immutable:B",
    ]


@pytest.mark.parametrize("name", ["Binding", "ObjectReference", "Probe", "ProbeHandler", "ExecAction", "Secret",
                                  "ResourceQuotaStatus", "Taint"])  # fmt: skip
def test_checked_in_table_equals_the_generated_one(name: str, tmp_path: Path) -> None:
    seen: dict[str, str] = {}
    reachable(sample(tmp_path), [f"{CORE}.{name}"], seen)
    assert f"\n{seen[f'{CORE}.{name}']}\n" in "".join((PODS, CORE_TABLE))


@pytest.mark.parametrize("name", ["Binding", "ObjectReference"])
def test_checked_in_field_numbers_equal_the_generated_ones(name: str, tmp_path: Path) -> None:
    text = Path(protobuf_fields.__file__).read_text(encoding="utf-8")
    assert constants(sample(tmp_path), [f"{CORE}.{name}"]) in text


@pytest.mark.parametrize("line", ["oneof kind {", "extensions 100 to 199;", "optional string name;"])
def test_declaration_that_is_no_field_raises(line: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown declaration"):
        sample(tmp_path, f"package k8s.io.api.core.v1;\n\nmessage Odd {{\n  {line}\n}}\n")
