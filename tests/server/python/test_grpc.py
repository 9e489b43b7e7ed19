"""gRPC against the real daemon and model, with PyPI's grpcio and its health and reflection packages."""
import json
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from grpc_client import GENERATE, Answer, address_of, chat_request, modules, open_channel, stub_of
from servers import MODEL_NAME, ROOT, SLUICED

SERVICE = "sluice.v1.GenerationService"
PROMPTS = [f"{verb} {topic}." for verb in ("Tell me about", "Write a list about", "What is good about", "Define")
           for topic in ("rivers", "the moon", "bread", "chess", "a violin", "winter", "ants", "the number seven")]


def http_answer(server, prompt, **fields):
    """Token ids and text of a streamed chat over HTTP."""
    body = {"messages": [{"role": "user", "content": prompt}], "stream": True, "return_token_ids": True, **fields}
    token_ids, text = [], ""
    with server.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            for choice in json.loads(line[6:])["choices"]:
                token_ids += choice.get("token_ids") or []
                text += choice["delta"].get("content") or ""
    return token_ids, text


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 0.9, "top_p": 0.95}])
def test_32_streams_on_each_road_give_equal_tokens(daemon, sampling):
    def fields(i):
        return {"max_tokens": 16 + i % 9, "seed": 100 + i, **sampling}

    start = threading.Barrier(64)

    def over_http(i):
        start.wait()
        return http_answer(daemon, PROMPTS[i], **fields(i))

    def over_grpc(i):
        with open_channel(daemon) as channel:
            start.wait()
            answer = Answer(stub_of(channel).Generate(chat_request(PROMPTS[i], **fields(i))))
            return answer.token_ids, answer.text

    with ThreadPoolExecutor(64) as threads:
        http = [threads.submit(over_http, i) for i in range(32)]
        rpc = [threads.submit(over_grpc, i) for i in range(32)]
        for i in range(32):
            assert rpc[i].result() == http[i].result(), PROMPTS[i]
            assert len(rpc[i].result()[0]) > 1


def test_tokenize_and_models(daemon):
    pb2 = modules()[0]
    with open_channel(daemon) as channel:
        stub = stub_of(channel)
        text = "Hello, llamas 🦙!"
        tokens = stub.Tokenize(pb2.TokenizeRequest(text=text, return_token_bytes=True))
        over_http = daemon.post("/tokenize", {"prompt": text}).json()
        assert list(tokens.token_ids) == over_http["tokens"]
        assert tokens.context_tokens == over_http["max_model_len"]
        assert b"".join(tokens.token_bytes).decode().endswith(text)
        assert stub.Detokenize(pb2.DetokenizeRequest(token_ids=tokens.token_ids)).text.endswith(text)
        chat = chat_request("Hi").chat
        assert list(stub.Tokenize(pb2.TokenizeRequest(chat=chat)).token_ids) == \
            daemon.post("/tokenize", {"messages": [{"role": "user", "content": "Hi"}]}).json()["tokens"]
        model = stub.GetModel(pb2.GetModelRequest())
        assert (model.name, model.ready, model.has_chat_template) == (MODEL_NAME, True, True)
        assert [m.name for m in stub.ListModels(pb2.ListModelsRequest()).models] == [MODEL_NAME]


def test_health_and_reflection_with_pypi_packages(daemon):
    with open_channel(daemon) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            status = health.Check(health_pb2.HealthCheckRequest(service=service)).status
            assert status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as error:
            health.Check(health_pb2.HealthCheckRequest(service="other"))
        assert error.value.code() == grpc.StatusCode.NOT_FOUND

        database = ProtoReflectionDescriptorDatabase(channel)
        assert {SERVICE, "grpc.health.v1.Health"} <= set(database.get_services())
        # A call with nothing known but what the server says of itself.
        method = DescriptorPool(database).FindServiceByName(SERVICE).methods_by_name["GetModel"]
        call = channel.unary_unary(f"/{SERVICE}/GetModel",
                                   request_serializer=lambda message: message.SerializeToString(),
                                   response_deserializer=GetMessageClass(method.output_type).FromString)
        assert call(GetMessageClass(method.input_type)()).name == MODEL_NAME


def test_a_deadline_and_a_cancel_end_in_the_metrics(daemon):
    request = chat_request("Count.", max_tokens=4000, ignore_eos=True)
    labels = {"method": f"{SERVICE}/Generate"}
    before = {code: daemon.metric("sluice_grpc_requests_total", code=code, **labels)
              for code in ("DEADLINE_EXCEEDED", "CANCELLED")}
    with open_channel(daemon) as channel:
        stub = stub_of(channel)
        with pytest.raises(grpc.RpcError) as error:
            for _ in stub.Generate(request, timeout=1.0):
                pass
        assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        call = stub.Generate(request)
        next(call)
        call.cancel()
        daemon.wait_until_idle()
    for code, count in before.items():
        assert daemon.metric("sluice_grpc_requests_total", code=code, **labels) == count + 1, code


def test_errors_carry_details(daemon):
    details_pb2 = modules()[2]
    with open_channel(daemon) as channel:
        with pytest.raises(grpc.RpcError) as error:
            list(stub_of(channel).Generate(chat_request("x", temperature=-1)))
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert error.value.details().startswith("temperature: -1 ")
        trailing = dict(error.value.trailing_metadata())
        status = details_pb2.Status.FromString(trailing["grpc-status-details-bin"])
        assert status.details[0].type_url == "type.googleapis.com/google.rpc.BadRequest"
        violation = details_pb2.BadRequest.FromString(status.details[0].value).field_violations[0]
        assert violation.field == "temperature"


def test_the_request_id_is_in_the_log(daemon):
    with open_channel(daemon) as channel:
        call = stub_of(channel).Generate(chat_request("A secret word", max_tokens=2),
                                         metadata=[("x-request-id", "trace-42")])
        assert dict(call.initial_metadata())["x-request-id"] == "trace-42"
        list(call)
    line = daemon.wait_for_log(r".*trace-42.*").group(0)
    assert "status=OK" in line or '"status":"OK"' in line
    assert "secret" not in daemon.read_log()


def test_keepalive_pings_of_a_usual_client_are_welcome(daemon):
    """Pings every six seconds, with no call open: a server of default settings would send it away."""
    options = {"grpc.keepalive_time_ms": 6000, "grpc.keepalive_permit_without_calls": 1,
               "grpc.http2.max_pings_without_data": 0}
    with open_channel(daemon, **options) as channel:
        states = []
        grpc.channel_ready_future(channel).result(10)
        channel.subscribe(states.append)
        time.sleep(20)
        assert set(states) <= {grpc.ChannelConnectivity.READY}
        list(stub_of(channel).Generate(chat_request("x", max_tokens=1)))


def test_life(new_daemon):
    daemon = new_daemon(wait=False)
    with open_channel(daemon) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=SERVICE),
                                                          wait_for_ready=True)
        statuses = health_pb2.HealthCheckResponse
        first = next(watch).status
        if first == statuses.NOT_SERVING:
            assert next(watch).status == statuses.SERVING
        call = stub_of(channel).Generate(chat_request("Count.", max_tokens=60, ignore_eos=True), wait_for_ready=True)
        daemon.wait_for_log("ready: ")
        next(call)
        daemon.process.send_signal(signal.SIGTERM)
        assert next(watch).status == statuses.NOT_SERVING
        answer = Answer(call)
        assert answer.usage.completion_tokens == 60
        with pytest.raises(grpc.RpcError) as error:
            next(watch)
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        assert daemon.process.wait(60) == 0, daemon.read_log()


def test_the_examples_run(daemon):
    prompt = "What is the capital of France?"
    token_ids, text = http_answer(daemon, prompt, max_tokens=12, seed=7)
    example = ROOT / "proto/examples/python/generate.py"
    program = SLUICED.parent.parent / "proto/examples/cpp/sluice_generate_example"
    for command in ([sys.executable, example, "--address", address_of(daemon), "--max-tokens", "12", "--seed", "7",
                     prompt],
                    [program, address_of(daemon), prompt, "12", "7"]):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(text)
        assert f"+ {len(token_ids)} tokens]" in done.stdout


def test_text_that_is_not_utf8_is_refused_and_writes_no_lines_of_its_own(new_daemon):
    server = new_daemon()
    with open_channel(server) as channel:
        call = channel.unary_stream(GENERATE, request_serializer=lambda data: data, response_deserializer=lambda data: data)
        for _ in range(20):
            with pytest.raises(grpc.RpcError):
                list(call(b"\x0a\x02\xff\xfe", timeout=20))  # model: two bytes that are no character
        assert list(stub_of(channel).Generate(chat_request("Hi", max_tokens=1), timeout=60))
    server.stop()
    lines = [line for line in server.read_log().splitlines() if "UTF-8" in line or "protobuf" in line]
    assert lines == []
