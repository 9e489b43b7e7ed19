"""Fixtures: running servers (servers.py)."""
import pytest

from servers import start_daemon, start_scripted


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than a few seconds")
    config.addinivalue_line("markers", "alone: measures time, so nothing else may run beside it")


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    server = start_daemon(tmp_path_factory.mktemp("daemon") / "log")
    yield server
    assert server.stop() == 0, server.read_log()


@pytest.fixture(scope="session")
def exact_daemon(tmp_path_factory):
    """With float32 arithmetic and cache, as the golden data were made."""
    server = start_daemon(tmp_path_factory.mktemp("exact") / "log", "--activations", "f32", "--kv-dtype", "f32")
    yield server
    assert server.stop() == 0, server.read_log()


@pytest.fixture
def new_daemon(tmp_path):
    """Starts daemons of the test's own; stops those that still run."""
    started = []

    def start(*flags, **options):
        started.append(start_daemon(tmp_path / f"log{len(started)}", *flags, **options))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def new_scripted(tmp_path):
    started = []

    def start(*flags):
        started.append(start_scripted(tmp_path / f"scripted{len(started)}", *flags))
        return started[-1]

    yield start
    for server in started:
        server.stop()
