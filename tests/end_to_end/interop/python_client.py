"""Calls a running trireme-server with Python's grpcio and prints the status code, and on OK what came.

The folder STUBS holds what protoc makes of proto/ (see interop_test.cc).
"""
import argparse
import sys

import grpc


def read(path):
    return open(path, "rb").read() if path else None


def channel(flags):
    if not flags.ca:
        return grpc.insecure_channel(flags.target)
    credentials = grpc.ssl_channel_credentials(read(flags.ca), read(flags.key), read(flags.cert))
    return grpc.secure_channel(flags.target, credentials)


def generate(connection, call):
    from trireme.v1 import generate_pb2, inference_pb2_grpc

    stopping = generate_pb2.StoppingParams(max_tokens=8, ignore_eos=True)
    request = generate_pb2.GenerateRequest(text="The capital", stopping=stopping)
    responses = list(inference_pb2_grpc.InferenceServiceStub(connection).Generate(request, **call))
    return "%d tokens" % responses[-1].complete.usage.completion_tokens


def server_info(connection, call):
    from trireme.v1 import inference_pb2_grpc, info_pb2

    stub = inference_pb2_grpc.InferenceServiceStub(connection)
    return str(stub.GetServerInfo(info_pb2.GetServerInfoRequest(), **call))


def health(connection, call):
    import health_pb2

    check = connection.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    response = check(health_pb2.HealthCheckRequest(), **call)
    return health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["generate", "server_info", "health"])
    parser.add_argument("--stubs", required=True)
    parser.add_argument("--target", required=True)
    for name in ("ca", "cert", "key", "token"):
        parser.add_argument("--" + name, default="")
    flags = parser.parse_args()
    sys.path.insert(0, flags.stubs)
    metadata = [("authorization", "Bearer " + read(flags.token).decode().strip())] if flags.token else []
    with channel(flags) as connection:
        try:
            print("OK", globals()[flags.what](connection, {"timeout": 20, "metadata": metadata}))
        except grpc.RpcError as error:
            print(error.code().name, error.details())


if __name__ == "__main__":
    main()
