"""A gRPC client for the tests: code made from the .proto files by grpcio-tools, and what a stream says, collected."""
import functools
import importlib
import pathlib
import subprocess
import sys
import tempfile

import grpc
import grpc_tools

from servers import ROOT

GENERATE = "/sluice.v1.GenerationService/Generate"


@functools.cache
def modules():
    """generate_pb2 and generate_pb2_grpc."""
    folder = tempfile.mkdtemp(prefix="sluice-stubs-")
    wellknown = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", f"-I{wellknown}",
                    f"--python_out={folder}", f"--grpc_python_out={folder}",
                    "sluice/v1/generate.proto", "sluice/v1/error_details.proto"], check=True)
    sys.path.insert(0, folder)
    return tuple(importlib.import_module(f"sluice.v1.{name}")
                 for name in ("generate_pb2", "generate_pb2_grpc", "error_details_pb2"))


def address_of(server):
    return server.wait_for_log(r"gRPC: (\S+:\d+)").group(1)


def open_channel(server, **options):
    """A connection of its own."""
    options = {"grpc.use_local_subchannel_pool": 1, **options}
    return grpc.insecure_channel(address_of(server), options=list(options.items()))


def stub_of(channel):
    return modules()[1].GenerationServiceStub(channel)


def chat_request(content, **fields):
    pb2 = modules()[0]
    return pb2.GenerateRequest(chat=pb2.ChatPrompt(messages=[pb2.ChatMessage(role="user", content=content)]),
                               **fields)


class Answer:
    """All of a stream with one answer."""

    def __init__(self, responses):
        self.text = ""
        self.token_ids = []
        for response in responses:
            self.text += response.text
            self.token_ids += response.token_ids
        self.finish = response.finish_reason
        self.usage = response.usage
