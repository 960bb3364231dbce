import dppca.common.transport  # noqa: F401 - before gRPC: TLS 1.3 and nothing older
