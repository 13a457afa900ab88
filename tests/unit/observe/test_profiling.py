"""The stacks of a running consumer can be looked at."""

from __future__ import annotations

import threading
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from consumer.errors import BadConfig
from consumer.observe.profiling import serving


def test_every_threads_stack_is_served() -> None:
    stop = threading.Event()
    waiting = threading.Thread(target=stop.wait, name="waits-for-it")
    waiting.start()
    with serving(("127.0.0.1", 0)) as url:
        with urlopen(url + "goroutine?debug=2", timeout=5) as answer:
            text = answer.read().decode()
        with pytest.raises(HTTPError, match="404"):
            urlopen(url.replace("/debug/pprof/", "/other"), timeout=5)
    stop.set()
    waiting.join()
    assert "waits-for-it:" in text
    assert "test_every_threads_stack_is_served" in text


def test_a_taken_port_is_told() -> None:
    with (
        serving(("127.0.0.1", 0)) as url,
        pytest.raises(BadConfig, match="cannot be listened on"),
        serving(("127.0.0.1", int(url.split(":")[2].split("/")[0]))),
    ):
        pass
