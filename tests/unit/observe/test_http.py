"""The server of metrics, the page and stacks: what it answers, to whom, and what it says when its port is taken."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from consumer.errors import BadConfig
from consumer.observe.http import Answer, Site, serving
from consumer.observe.profiling import SITE

HERE = ("127.0.0.1", 0)
TOKEN = "0123456789abcdef"


def broken(_: object) -> Answer:
    raise ValueError("secret")


GUARDED = Site(
    {"/": lambda query: Answer(repr(dict(query)).encode()), "/healthz": lambda _: Answer(b"ok\n"), "/broken": broken},
    TOKEN,
    frozenset({"/healthz"}),
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(GUARDED, HERE, "http") as url:
        yield url


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urlopen(Request(url, headers=headers), timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("path", "authorization", "status"),
    [
        ("/", f"Bearer {TOKEN}", 200),
        ("/?q=a&q=b", f"bearer {TOKEN}", 200),
        ("/", basic(TOKEN), 200),
        ("/", basic(TOKEN + "0"), 401),
        ("/", "Basic ***", 401),
        ("/", "Bearer ", 401),
        ("/", "", 401),
        ("/healthz", "", 200),
        ("/other", f"Bearer {TOKEN}", 404),
        ("/healthz/x", "", 404),
    ],
)
def test_who_is_answered(url: str, path: str, authorization: str, status: int) -> None:
    assert get(url + path, **({"Authorization": authorization} if authorization else {}))[0] == status


def test_the_last_of_alike_parameters_counts(url: str) -> None:
    assert get(f"{url}/?q=a&q=b&page=2", Authorization=f"Bearer {TOKEN}")[1] == "{'q': 'b', 'page': '2'}"


def test_an_error_is_told_without_its_text(url: str) -> None:
    status, text = get(f"{url}/broken", Authorization=f"Bearer {TOKEN}")
    assert (status, "ValueError" in text, "secret" in text) == (500, True, False)


def test_head_has_no_body_and_other_methods_are_refused(url: str) -> None:
    host = url.removeprefix("http://")
    for method, status in (("HEAD", 200), ("POST", 501)):
        asked = HTTPConnection(host, timeout=5)
        asked.request(method, "/healthz")
        answer = asked.getresponse()
        assert answer.status == status
        if method == "HEAD":
            assert (answer.read(), answer.headers["Content-Length"]) == (b"", "3")
        asked.close()


def test_every_threads_stack_is_served() -> None:
    stop = threading.Event()
    waiting = threading.Thread(target=stop.wait, name="waits-for-it")
    waiting.start()
    with serving(SITE, HERE, "enable-profiling") as url:
        status, text = get(f"{url}/debug/pprof/goroutine?debug=2")
        assert get(f"{url}/other")[0] == 404
    stop.set()
    waiting.join()
    assert (status, "waits-for-it:" in text) == (200, True)
    assert "test_every_threads_stack_is_served" in text


@pytest.mark.parametrize("address", ["taken", ("203.0.113.1", 9464)])
def test_an_address_that_cannot_be_had_is_told(url: str, address: Any) -> None:
    taken = ("127.0.0.1", int(url.rpartition(":")[2]))
    with (
        pytest.raises(BadConfig, match=r"http: .* cannot be listened on"),
        serving(GUARDED, taken if address == "taken" else address, "http"),
    ):
        pass
