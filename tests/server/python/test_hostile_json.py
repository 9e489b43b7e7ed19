"""JSON by its grammar: what is not JSON is refused with its place, what is JSON but odd is read as its rules say."""
import json

import pytest

GOOD = '"prompt":"x","max_tokens":1'


def post_raw(server, body, path="/v1/completions"):
    with server.http() as client:
        return client.post(path, content=body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from servers import start_scripted
    server = start_scripted(tmp_path_factory.mktemp("json") / "log")
    yield server
    assert server.stop() == 0, server.read_log()


NOT_JSON = {
    "nothing": "", "spaces": "  \n", "brace": "{", "colon": "{:", "word": "hello", "single quotes": "{'prompt':'x'}",
    "comment": "{" + GOOD + "} // x", "comment inside": "{/* x */" + GOOD + "}", "trailing comma": "{" + GOOD + ",}",
    "no colon": '{"prompt" "x"}', "two objects": "{" + GOOD + "}{" + GOOD + "}", "trailing text": "{" + GOOD + "} x",
    "trailing brace": "{" + GOOD + "}}", "byte order mark": "\ufeff{" + GOOD + "}",
    "UTF-16": ("{" + GOOD + "}").encode("utf-16"), "NUL after": ("{" + GOOD + "}\0").encode(),
    "NaN": '{"temperature":NaN,' + GOOD + "}", "Infinity": '{"temperature":Infinity,' + GOOD + "}",
    "-Infinity": '{"temperature":-Infinity,' + GOOD + "}", "leading zero": '{"n":01,' + GOOD + "}",
    "plus": '{"n":+1,' + GOOD + "}", "bare point": '{"temperature":.5,' + GOOD + "}",
    "ending point": '{"temperature":1.,' + GOOD + "}", "hex": '{"n":0x1,' + GOOD + "}",
    "True": '{"stream":True,' + GOOD + "}", "raw newline": '{"prompt":"a\nb"}', "raw NUL": '{"prompt":"a\0b"}',
    "bad escape": '{"prompt":"\\x41"}', "short escape": '{"prompt":"\\u12"}',
    "high surrogate alone": '{"prompt":"\\ud83e"}', "low surrogate alone": '{"prompt":"\\udd99"}',
    "surrogates swapped": '{"prompt":"\\udd99\\ud83e"}', "surrogate in a key": '{"\\ud83e":1,' + GOOD + "}",
    "surrogate as bytes": '{"prompt":"\ud83e"}', "invalid byte": b'{"prompt":"\xff"}',
    "overlong form": b'{"prompt":"\xc0\xaf"}', "cut character": b'{"prompt":"\xe2\x82"}',
    "beyond Unicode": b'{"prompt":"\xf4\x90\x80\x80"}',
    "unclosed": '{"prompt":"x', "10,000 deep": '{"messages":' + "[" * 10_000 + "]" * 10_000 + "}",
    "100,000 deep": '{"tools":' + '{"a":' * 100_000, "65 deep": '{"x":' + "[" * 64 + "]" * 64 + "," + GOOD + "}",
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_what_is_not_json_is_refused_with_its_place(server, body):
    response = post_raw(server, body)
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["type"] == "invalid_request_error" and error["code"] == "invalid_json"
    assert "at byte" in error["message"] or "levels" in error["message"]
    assert post_raw(server, "{" + GOOD + "}").status_code == 200


@pytest.mark.parametrize("body", ["null", "[]", '"x"', "17", "true"])
def test_json_that_is_no_object(server, body):
    response = post_raw(server, body)
    assert response.status_code == 400 and "must be a JSON object" in response.json()["error"]["message"]


ODD = {
    "last of equal keys": '{"n":99,"n":1,' + GOOD + "}", "64 deep": '{"x":' + "[" * 63 + "]" * 63 + "," + GOOD + "}",
    "space round it": " \r\n\t{" + GOOD + "} \n", "whole number as 1.0": '{"n":1.0,' + GOOD + "}",
    "1e0": '{"n":1e0,' + GOOD + "}", "surrogate pair": '{"prompt":"\\ud83e\\udd99","max_tokens":1}',
    "escaped NUL": '{"prompt":"a\\u0000b","max_tokens":1}', "escaped key": '{"\\u0070rompt":"x","max_tokens":1}',
    "unknown members": '{"zzz":{"a":[1e308,-0.0]},' + GOOD + "}", "nulls": '{"n":null,"stop":null,' + GOOD + "}",
    "seed of 64 bits": '{"seed":18446744073709551615,' + GOOD + "}", "-0": '{"temperature":-0.0,' + GOOD + "}",
    "tiny": '{"temperature":1e-400,' + GOOD + "}",
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD.keys())
def test_odd_json_is_read_by_its_rules(server, body):
    response = post_raw(server, body)
    assert response.status_code == 200, response.text
    assert len(response.json()["choices"]) == 1


@pytest.mark.parametrize("field", ["temperature", "top_p", "top_k", "min_p", "n", "max_tokens", "min_tokens", "seed",
                                   "repetition_penalty", "presence_penalty", "best_of"])
@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e99999", "9" * 400, "-" + "9" * 40, "18446744073709551616"])
def test_numbers_that_fit_nowhere(server, field, number):
    body = '{"prompt":"x","' + field + '":' + number + "}"
    response = post_raw(server, body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == field or error["code"] == "invalid_json"
    assert post_raw(server, "{" + GOOD + "}").status_code == 200


def test_a_body_that_becomes_too_large_in_memory(server):
    resident = server.resident_bytes()
    for body in ('{"prompt":[1' + ",1" * 4_000_000 + "]}", '{"a":' + "{}" + ',"b":{}' * 1_000_000 + "}",
                 '{"a":[' + "[]," * 2_500_000 + "[]]}"):
        assert len(body) < 8 << 20
        response = post_raw(server, body)
        assert response.status_code in (400, 413), response.text[:200]
    assert server.resident_bytes() - resident < 200 << 20


def test_error_messages_quote_little_and_are_valid_json(server):
    response = post_raw(server, json.dumps({"prompt": "x", "temperature": "\x00\x1b" + "é" * 100_000}))
    assert response.status_code == 400 and len(response.content) < 2_000
    assert "é" in response.json()["error"]["message"]
