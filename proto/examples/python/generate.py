#!/usr/bin/env python3
"""Streams an answer over gRPC.

    pip install grpcio grpcio-tools
    python generate.py "What is the capital of France?"
    python generate.py --address 127.0.0.1:8001 --max-tokens 20 --seed 7 "Tell me a story."

The client code is made from generate.proto when this starts; a program of your own would do it once:
    python -m grpc_tools.protoc -I proto --python_out=. --grpc_python_out=. sluice/v1/generate.proto
"""
import argparse
import pathlib
import sys
import tempfile

import grpc
import grpc_tools
from grpc_tools import protoc

PROTO = pathlib.Path(__file__).resolve().parents[2]


def make_client_code(folder):
    # grpc_tools brings Protobuf's own .proto files along.
    wellknown = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    status = protoc.main(["protoc", f"-I{PROTO}", f"-I{wellknown}", f"--python_out={folder}",
                          f"--grpc_python_out={folder}", "sluice/v1/generate.proto"])
    if status != 0:
        sys.exit("protoc failed")
    sys.path.insert(0, folder)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("prompt")
    arguments.add_argument("--address", default="127.0.0.1:8001")
    arguments.add_argument("--max-tokens", type=int)
    arguments.add_argument("--seed", type=int)
    arguments.add_argument("--deadline", type=float, default=60, help="seconds")
    options = arguments.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        make_client_code(folder)
        from sluice.v1 import generate_pb2, generate_pb2_grpc

    request = generate_pb2.GenerateRequest(
        chat=generate_pb2.ChatPrompt(messages=[generate_pb2.ChatMessage(role="user", content=options.prompt)]),
        max_tokens=options.max_tokens, seed=options.seed)
    with grpc.insecure_channel(options.address) as channel:
        stub = generate_pb2_grpc.GenerationServiceStub(channel)
        try:
            for response in stub.Generate(request, timeout=options.deadline):
                print(response.text, end="", flush=True)
        except grpc.RpcError as error:
            sys.exit(f"{error.code().name}: {error.details()}")
    print(f"\n[{response.usage.prompt_tokens} + {response.usage.completion_tokens} tokens]")


if __name__ == "__main__":
    main()
