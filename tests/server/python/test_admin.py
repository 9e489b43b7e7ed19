"""What an operator sees at /admin/state, and who sees it."""
import json
import subprocess

import pytest

from servers import SLUICED, model_path

KEY = "a-key-of-sixteen-or-more"


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    return path


def get_state(client, key=KEY, scheme="Bearer"):
    return client.get("/admin/state", headers={"Authorization": f"{scheme} {key}"} if key else {})


def test_nothing_answers_unless_a_key_is_set(new_daemon):
    with new_daemon().http() as client:
        assert get_state(client).status_code == 404


def test_the_key_opens_it_and_nothing_else_does(new_daemon, key_file):
    with new_daemon("--admin-key-file", str(key_file)).http() as client:
        for key, scheme in [(None, ""), ("", "Bearer"), (KEY[:-1], "Bearer"), (KEY + "x", "Bearer"),
                            (KEY[:-1] + "X", "Bearer"), (KEY, "Basic")]:
            refused = get_state(client, key, scheme)
            assert refused.status_code == 401, (key, scheme)
            assert refused.headers["www-authenticate"] == "Bearer"
            assert KEY not in refused.text
        assert get_state(client).status_code == 200
        assert get_state(client, scheme="bearer").status_code == 200


def test_running_and_waiting_answers_are_shown_without_their_words(new_daemon, key_file):
    server = new_daemon("--admin-key-file", str(key_file), "--max-running", "2",
                        "--tenant-header", "x-tenant")
    with server.http() as client, client.stream(
            "POST", "/v1/completions", headers={"X-Tenant": "blue"},
            json={"prompt": "zebra " * 40, "max_tokens": 4000, "ignore_eos": True, "stream": True, "n": 4}) as stream:
        lines = stream.iter_lines()
        answer_id = json.loads(next(lines).removeprefix("data: "))["id"]
        with server.http() as operator:
            response = get_state(operator)
        assert "zebra" not in response.text
        (state,) = response.json()["models"].values()
        assert (state["running"], state["waiting"]) == (2, 2)
        running, waiting = state["running_sequences"], state["waiting_sequences"]
        assert [s["choice"] for s in running + waiting] == [0, 1, 2, 3]
        for sequence in running + waiting:
            assert sequence["tenant"] == "blue" and sequence["age_seconds"] > 0
            assert sequence["request_id"] == answer_id
            assert sequence["generated_tokens"] + sequence["tokens_left"] == 4000
        assert running[0]["generated_tokens"] > 0 and running[0]["kv_blocks"] > 0
        assert all(s["waiting_seconds"] > 0 and s["kv_blocks"] == 0 for s in waiting)
        assert sum(t["running"] for t in state["tenants"]) == 2
        assert state["kv_blocks"]["used"] > 0
    server.wait_until_idle()
    with server.http() as operator:
        (state,) = get_state(operator).json()["models"].values()
    assert (state["running_sequences"], state["waiting_sequences"]) == ([], [])


@pytest.mark.parametrize("content, complaint", [
    ("short", "holds 5 bytes, not 16 to 4096"),
    ("a" * 5000, "holds more than 4096 bytes"),
    ("sixteen bytes and a space", "visible ASCII"),
    (None, "cannot read"),
])
def test_a_key_that_is_none_is_refused_at_the_start(tmp_path, content, complaint):
    path = tmp_path / "key"
    if content is not None:
        path.write_text(content)
    done = subprocess.run([SLUICED, "serve", "--model", model_path(), "--http-port", "0", "--grpc-port", "-1",
                           "--admin-key-file", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert complaint in done.stderr and (content is None or content not in done.stderr)
