"""Messages over gRPC that are too large, hold more than their bytes tell, or ask for what no message can say."""
import grpc
import pytest
from google.protobuf.struct_pb2 import Value

from grpc_client import chat_request, modules, open_channel, stub_of
from test_http_hostile import cpu_seconds

MIB = 1 << 20


def refused(call):
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value.code(), error.value.details()


def well(stub):
    """The connection still takes calls."""
    return len(list(stub.Generate(chat_request("Hi", max_tokens=1)))) > 0


def tokenize(stub, size, **fields):
    return stub.Tokenize(modules()[0].TokenizeRequest(text="ab " * (size // 3), **fields))


def test_requests_have_a_limit_that_their_refusal_names(daemon):
    with open_channel(daemon) as channel:
        stub = stub_of(channel)
        assert len(tokenize(stub, int(3.9 * MIB)).token_ids) > MIB
        for size in (int(4.1 * MIB), 30 * MIB):
            code, details = refused(lambda: tokenize(stub, size))
            assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert str(4 * MIB) in details
            assert well(stub)


def test_answers_that_usual_clients_would_not_take_are_refused_with_the_setting(daemon, new_daemon):
    with open_channel(daemon, **{"grpc.max_receive_message_length": -1}) as channel:
        stub = stub_of(channel)
        code, details = refused(lambda: tokenize(stub, 3 * MIB, return_token_bytes=True))
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert f"grpc.max_message_bytes is {4 * MIB}" in details
        assert well(stub)
    larger = new_daemon("--grpc-max-message-bytes", "16MiB")
    with open_channel(larger, **{"grpc.max_receive_message_length": 16 * MIB}) as channel:
        assert tokenize(stub_of(channel), 3 * MIB, return_token_bytes=True).ByteSize() > 4 * MIB
        assert tokenize(stub_of(channel), int(4.1 * MIB)).token_ids


def large_requests():
    pb2 = modules()[0]
    many_values = chat_request("x")
    many_values.chat.chat_template_kwargs.fields["k"].list_value.values.extend([Value()] * 1_500_000)
    calls = pb2.ChatMessage(role="assistant", content="x", tool_calls=[pb2.ToolCall()] * 500_000)
    arguments = pb2.ToolCall(name="f", arguments='{"a":[' + "[]," * 1_000_000 + "[]]}")
    return {
        "stop": chat_request("x", stop=["x"] * 500_000),
        "stop_token_ids": chat_request("x", stop_token_ids=[1] * 500_000),
        "logit_bias": chat_request("x", logit_bias={i: 1.0 for i in range(40_000)}),
        "messages": pb2.GenerateRequest(chat=pb2.ChatPrompt(messages=[pb2.ChatMessage(role="user", content="x")] * 300_000)),
        "messages[0].tool_calls": pb2.GenerateRequest(chat=pb2.ChatPrompt(messages=[calls])),
        "messages[0].tool_calls: more than 65536 values": pb2.GenerateRequest(
            chat=pb2.ChatPrompt(messages=[pb2.ChatMessage(role="assistant", content="x", tool_calls=[arguments])])),
        "chat_template_kwargs": many_values,
        "token_ids": pb2.GenerateRequest(token_ids=pb2.TokenIds(ids=[1] * 1_000_000)),
    }


def test_lists_are_capped_while_reading(daemon):
    with open_channel(daemon) as channel:
        stub = stub_of(channel)
        for field, request in large_requests().items():
            cpu = cpu_seconds(daemon)
            resident = daemon.resident_bytes()
            code, details = refused(lambda: list(stub.Generate(request)))
            assert code == grpc.StatusCode.INVALID_ARGUMENT, (field, details)
            assert details.startswith(field)
            assert cpu_seconds(daemon) - cpu < 1, field
            assert daemon.resident_bytes() - resident < 256 * MIB, field
            assert well(stub)


def test_part_of_a_character_is_text_all_the_same(daemon):
    pb2 = modules()[0]
    tokens = daemon.post("/tokenize", {"prompt": "a 🦙 b"}).json()["tokens"]
    with open_channel(daemon) as channel:
        stub = stub_of(channel)
        texts = [stub.Detokenize(pb2.DetokenizeRequest(token_ids=tokens[:end])).text for end in range(len(tokens) + 1)]
        over_http = [daemon.post("/detokenize", {"tokens": tokens[:end]}).json()["prompt"] for end in range(len(tokens) + 1)]
    assert texts[-1] == over_http[-1] == "a 🦙 b"
    # The llama is of several tokens.
    assert any("\ufffd" in text for text in texts) and any("\ufffd" in text for text in over_http)
