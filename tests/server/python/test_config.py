"""The daemon's configuration: sources and their weight, errors, exit codes. Starts the real binary; only the last
tests load a model."""
import os
import re
import subprocess

import pytest

from servers import ROOT, SLUICED, model_path

VALUE = re.compile(r"^  (\w+): (.*?) +# (.*)$")


def run(*arguments, env=None, seconds=30):
    """The finished process. Its environment has nothing of ours but `env`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    return subprocess.run([str(SLUICED), *arguments], env={**clean, **(env or {})}, capture_output=True, text=True,
                          timeout=seconds)


def effective(*arguments, env=None):
    """path -> (value as printed, where it comes from)."""
    done = run("config", *arguments, env=env)
    assert done.returncode == 0, done.stderr
    settings = {}
    section = None
    for line in done.stdout.splitlines():
        if re.match(r"\w+:$", line):
            section = line[:-1]
        elif found := VALUE.match(line):
            settings[f"{section}.{found[1]}"] = (found[2], found[3])
    return settings


def refused(*arguments, env=None):
    done = run(*arguments, env=env)
    assert done.returncode == 2, done
    assert done.stdout == ""
    return done.stderr


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "sluice.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_each_source_overrides_the_next(file):
    path = file("http:\n  port: 1001\n  host: 1.2.3.4\n  idle_timeout: 5m\n")
    env = {"SLUICE_HTTP_PORT": "1002", "SLUICE_HTTP_HOST": "5.6.7.8", "SLUICE_LOG_LEVEL": "error"}
    settings = effective("--config", path, "--http-port", "1003", "--set", "http.early_bytes=1MiB", env=env)
    assert settings["http.port"] == ("1003", "flag --http-port")
    assert settings["http.host"] == ('"5.6.7.8"', "env SLUICE_HTTP_HOST")
    assert settings["http.idle_timeout"] == ("5m", f"{path}:4")
    assert settings["http.early_bytes"] == ("1MiB", "flag --set http.early_bytes")
    assert settings["http.body_timeout"] == ("60s", "default")
    assert settings["log.level"] == ("error", "env SLUICE_LOG_LEVEL")


def test_the_file_may_come_from_the_environment(file):
    path = file("log: {level: debug}\n")
    assert effective(env={"SLUICE_CONFIG": path})["log.level"] == ("debug", f"{path}:1")
    assert "No such file" in refused("config", "--config", "/no/such.yaml", env={"SLUICE_CONFIG": path})


def test_what_is_printed_is_a_file_that_means_the_same(file):
    first = run("config", "--http-port", "0", "--served-model-name", "a: \"b\" #c", "--grace-seconds", "0.25",
                "--cors-origins", "https://a.example,*")
    assert first.returncode == 0
    values = effective("--config", file(first.stdout))
    for path, (value, _) in effective("--http-port", "0", "--served-model-name", "a: \"b\" #c", "--grace-seconds",
                                      "0.25", "--cors-origins", "https://a.example,*").items():
        assert values[path][0] == value, path


def test_mistakes_in_the_file_are_all_named_with_their_lines(file):
    path = file("http:\n  prot: 1\n  port: 70000\n  max_body_bytes: 12 parsecs\nhttps: {}\nlog:\n  level: loud\n")
    text = refused("serve", "--model", "no-such-file", "--config", path)
    for part in (f'{path}:2: no setting "http.prot"; did you mean http.port?',
                 f"{path}:3: 70000 is not in [0, 65535] (http.port)",
                 f'{path}:4: "12 parsecs" is not a size',
                 f'{path}:5: no setting "https"; did you mean http?',
                 f'{path}:7: "loud" is not one of debug, info, warning, error (log.level)'):
        assert part in text
    assert "no-such-file" not in text  # nothing was opened


def test_hostile_files_are_refused_soon(file):
    for text, part in (("a: &a [x]\n" + "b: [*a, *a]\n" * 1000, "anchors"),
                       ("[" * 200_000, "sluice.yaml:1"),
                       ("#" * 300_000, "more than 262144 bytes"),
                       ("http: {port: 1, port: 2}\n", '"http.port" is given twice'),
                       ("http:\n  port: 1\n---\nhttp: {}\n", "second YAML document")):
        assert part in refused("config", "--config", file(text)), part


def test_refusals_name_flag_or_variable():
    assert "--http-port: 70000 is not in [0, 65535] (http.port)" in refused("config", "--http-port", "70000")
    assert "SLUICE_HTTP_PORT: \"x\" is not a whole number" in refused("config", env={"SLUICE_HTTP_PORT": "x"})
    assert "did you mean --http-port?" in refused("config", "--htpp-port", "1")
    assert "may not be less than engine.max_running = 64 (default)" in refused("config", "--step-tokens", "16")
    text = refused("serve")
    assert "model.path" in text and "--model" in text and "SLUICE_MODEL_PATH" in text
    refused()
    refused("dance")


def test_unknown_variables_warn_and_kubernetes_links_do_not():
    done = run("config", env={"SLUICE_HTTP_PROT": "1", "SLUICE_TEST_X": "1", "SLUICE_PORT": "tcp://10.0.0.1:8000",
                              "SLUICE_SERVICE_HOST": "10.0.0.1", "SLUICE_PORT_8000_TCP_ADDR": "10.0.0.1",
                              "SLUICE_GRPC_PORT": "tcp://10.0.0.2:8001"})
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert "SLUICE_HTTP_PROT: ignored; did you mean SLUICE_HTTP_PORT?" in lines[1]
    assert "SLUICE_GRPC_PORT" in lines[0] and "Kubernetes" in lines[0]
    assert re.search(r"^  port: 8001 +# default$", done.stdout, re.M)


def test_help_says_all_there_is():
    done = run("serve", "--help")
    assert done.returncode == 0
    for words in ("--model FILE", "--http-port", "--grpc-port", "--grace-seconds", "--config FILE", "--set PATH=VALUE",
                  "--set http.early_bytes=SIZE", "SLUICE_HTTP_PORT", "Exit codes", "64KiB"):
        assert words in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 110
    assert run("--help").returncode == 0 and run("version").stdout.startswith("sluiced ")


def test_the_default_file_in_configs_is_the_defaults():
    printed = run("config", "--defaults").stdout
    assert (ROOT / "configs/sluice.yaml").read_text() == printed, "run: sluiced config --defaults > configs/sluice.yaml"
    settings = effective("--config", str(ROOT / "configs/sluice.yaml"))
    assert {path: value for path, (value, _) in settings.items()} == \
        {path: value for path, (value, _) in effective().items()}


@pytest.mark.parametrize("name", ["small", "large", "tenants"])
def test_the_files_in_configs_are_valid_and_say_what_differs(name):
    settings = effective("--config", str(ROOT / f"configs/{name}.yaml"))
    defaults = effective()
    said = {path for path, (_, origin) in settings.items() if f"{name}.yaml:" in origin}
    assert len(said) > 5
    assert all(settings[path][0] != defaults[path][0] for path in said)


def test_a_model_that_is_not_there_ends_with_1():
    done = run("serve", "--model", "/no/such/model.gguf", "--http-port", "0", "--grpc-port", "0")
    assert done.returncode == 1
    assert "/no/such/model.gguf" in done.stderr


def test_served_from_file_and_environment(file, monkeypatch):
    """A daemon that takes all from a file but for its ports, warns of a name that is wrong, and ends with 0."""
    path = file("model:\n  path: /no/such/model.gguf\n  name: from-the-file\nlife: {lame_duck: 0, grace: 20s}\n")
    monkeypatch.setenv("SLUICE_CONFIG", path)
    monkeypatch.setenv("SLUICE_MODEL_PATH", model_path())
    monkeypatch.setenv("SLUICE_LOG_LEVLE", "debug")
    log = os.path.join(os.path.dirname(path), "log")
    command = [str(SLUICED), "serve", "--http-port", "0", "--grpc-port", "0", "--kv-bytes", "200MiB"]
    with open(log, "w") as out:
        process = subprocess.Popen(command, stderr=out)
    try:
        for _ in range(600):
            text = open(log).read()
            if "ready: " in text:
                break
            assert process.poll() is None, text
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                pass
        assert "ready: " in text
        assert "model from-the-file" in text
        assert "SLUICE_LOG_LEVLE: ignored; did you mean SLUICE_LOG_LEVEL?" in text
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_tenants_are_read_before_anything_is_loaded():
    def wrong(entry):
        done = run("serve", "--model", "/nowhere.gguf", "--tenants", entry)
        assert done.returncode == 2, done.stderr
        return done.stderr

    assert "engine.tenants" in wrong("gold weight=0")
    assert "weight=0 is not in [0.001" in wrong("gold weight=0")
    assert "the tenant's name comes first" in wrong("weight=2")
    assert "none of weight=, kv=, ttft_ms=, itl_ms=, and (whole numbers) running=" in wrong("gold speed=2")
    assert "is not of the form NAME=NUMBER" in wrong("gold weight=fast")
    assert "running=1.5" in wrong("gold running=1.5")
    assert "prompt_tokens=0 is not in [1" in wrong("gold prompt_tokens=0")
    assert "tokens_per_minute=0.5" in wrong("gold tokens_per_minute=0.5")
    assert "itl_ms=0 is not in [1.0" in wrong("gold itl_ms=0")
    assert "the tenant is there already" in wrong("gold weight=1,gold weight=2")
    # Right as it is: what is missing then is the model.
    assert run("serve", "--model", "/nowhere.gguf", "--tenants", "gold weight=2 prompt_tokens=9,* open=5 tokens_per_minute=7").returncode == 1


def test_replay_refuses_what_is_no_record(tmp_path):
    assert run("replay").returncode == 2
    assert "can't read" in run("replay", str(tmp_path / "nothing")).stderr
    text = tmp_path / "text"
    text.write_text("no record")
    done = run("replay", str(text))
    assert done.returncode == 2 and "no flight record" in done.stderr
