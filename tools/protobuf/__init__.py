"""Generator of the protobuf tables from the .proto files that k8s.io/api and k8s.io/apimachinery publish."""
