"""Kubernetes' protobuf encoding, read only: typed clients (`kubectl create deployment`, Go programs) send it."""
