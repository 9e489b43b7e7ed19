"""A storm over the real daemon. storm.py says what blows; by hand it also measures what the friends notice.

Here only what must hold on any machine, however busy: every friend gets all of its text, the server's memory stays
within its limits, each attacker gets the answer that its limit promises, and afterwards nothing is left.
"""
import os
import time

import pytest

import storm

pytestmark = pytest.mark.alone

PROMISED = {"1 MB header": "431", "20,000 headers": "431", "10,000-deep JSON": "400", "100 MB body": "413",
            "100 MB in chunks": "413", "JSON of 3.5 M numbers": "413"}


@pytest.mark.slow
def test_friends_get_through(new_daemon):
    storm.raise_file_limit()
    server = new_daemon(*storm.FLAGS)
    server.post("/v1/completions", {"prompt": "warm", "max_tokens": 2})
    files = server.open_files()
    outcome = storm.blow(server, seconds=3, friends=4, slow=1000, half_open=1000, tokens=400)
    print(outcome.table())
    assert outcome.up == 2000
    for kind, count in outcome.answers.items():
        name, result = kind.split(": ")
        if name in PROMISED:
            assert result == PROMISED[name], (kind, count)
    for name in PROMISED:
        assert any(kind.startswith(name) for kind in outcome.answers), name
    # Keys and values (400 MiB), the budgets for bodies and answers, and what 2,000 connections need.
    assert outcome.resident_peak - outcome.resident_before < 1000 << 20
    server.wait_until_idle(60)
    end = time.monotonic() + 30
    while server.open_files() > files and time.monotonic() < end:
        time.sleep(0.05)
    assert server.open_files() <= files + 1
    outcome.check_friends()
    assert os.path.exists(f"/proc/{server.process.pid}")
