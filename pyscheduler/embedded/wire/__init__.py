"""Decoder of Kubernetes' protobuf encoding, which typed clients send (`kubectl create deployment`, Go programs)."""
