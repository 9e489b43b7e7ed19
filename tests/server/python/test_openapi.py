"""The served description is true: generated requests, good and bad, get what it promises."""
import json
import pathlib
import subprocess
import sys

import httpx
import pytest

# What is checked of every answer. Not that all that fits the schema is accepted: some rules (a prompt's length, a
# token id's range, max_tokens beside echo) can't be said in a schema.
CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_headers_conformance", "response_schema_conformance", "negative_data_rejection",
          "unsupported_method", "allow_header_conformance"]


@pytest.fixture(scope="module")
def small_daemon(tmp_path_factory):
    """Answers end with a small context, whatever a request asks for."""
    from servers import start_daemon
    server = start_daemon(tmp_path_factory.mktemp("openapi") / "log", "--context-length", "64")
    yield server
    assert server.stop() == 0, server.read_log()


def test_description_names_every_route(small_daemon):
    description = httpx.get(small_daemon.url + "/openapi.json").json()
    assert description["openapi"] == "3.1.0"
    for path, methods in description["paths"].items():
        for method in methods:
            answer = httpx.request(method, small_daemon.url + path.replace("{model}", "smollm2"), timeout=60)
            assert answer.status_code in (200, 400), (method, path, answer.status_code)
            assert str(answer.status_code) in methods[method]["responses"]


def test_answers_fit_their_schemas(small_daemon):
    """The chat chunk too, which as an event is hidden from the run below."""
    import jsonschema_rs
    description = httpx.get(small_daemon.url + "/openapi.json").json()

    def check(name, value):
        schema = {**description, "$ref": f"#/components/schemas/{name}"}
        jsonschema_rs.validator_for(schema).validate(value)

    chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    check("ChatRequest", chat)
    check("ChatCompletion", small_daemon.post("/v1/chat/completions", chat).json())
    for more in ({}, {"stream_options": {"include_usage": True}}):
        text = small_daemon.post("/v1/chat/completions", {**chat, "stream": True, **more}).text
        events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        assert events[-1] == "[DONE]"
        for event in events[:-1]:
            check("ChatChunk", json.loads(event))
    text = small_daemon.post("/v1/completions", {"prompt": "hi", "max_tokens": 4, "stream": True}).text
    for line in text.splitlines():
        if line.startswith("data: {"):
            check("Completion", json.loads(line[6:]))
    check("Error", small_daemon.post("/v1/completions", {"prompt": ""}).json())


@pytest.mark.slow
def test_generated_requests(small_daemon, tmp_path):
    program = pathlib.Path(sys.executable).parent / "schemathesis"
    result = subprocess.run(
        [str(program), "run", small_daemon.url + "/openapi.json", "--checks", ",".join(CHECKS), "--seed", "4",
         "--phases", "examples,coverage,fuzzing", "--max-examples", "8", "--suppress-health-check", "all",
         "--continue-on-failure", "--warnings", "off", "--no-color"],
        capture_output=True, text=True, timeout=400, cwd=tmp_path)
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-2_000:]
    small_daemon.wait_until_idle()
