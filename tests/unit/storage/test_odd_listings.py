"""Stand-ins for S3 that answer listings in ways of their own: every file is found once, and the listing ends."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from consumer.errors import StorageUnavailable
from consumer.storage import s3
from consumer.storage.s3 import S3Files
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Span, Spans

KEYS = [f"d/t/{folder}/CDC{number}.json" for folder in "123" for number in range(1, 7)]
READ = Spans([Span("d/t/2/", "d/t/2/CDC6", 5)])
NEW = [key for key in KEYS if READ.covering(key) is None]
PAGE = 4
SETTINGS = StorageSettings.from_uri("s3://bucket?access-key=a&secret-access-key=b")


class Server:
    """Pages of four keys. `start_after`: it begins behind the key that is asked for; `truncated`, `token`: what its
    answers hold."""

    def __init__(
        self, start_after: bool = True, truncated: bool = True, token: bool = True, keys: list[str] = KEYS
    ) -> None:
        self.start_after, self.truncated, self.token, self.keys = start_after, truncated, token, keys
        self.requests = 0

    def page(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests += 1
        assert self.requests < 50, "it does not end"
        behind = request.get("StartAfter", "") if self.start_after else ""
        at = int(request.get("ContinuationToken", sum(key <= behind for key in self.keys)))
        more = at + PAGE < len(self.keys)
        answer: dict[str, Any] = {"Contents": [{"Key": k, "Size": 1, "ETag": "e"} for k in self.keys[at : at + PAGE]]}
        if self.truncated:
            answer["IsTruncated"] = more
        if more and self.token:
            answer["NextContinuationToken"] = str(at + PAGE)
        return answer


def listed(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(S3Files, "_page", lambda self, request: server.page(request))
    monkeypatch.setattr(s3, "translated_errors", lambda *_: nullcontext())
    return [file.path for file in S3Files(SETTINGS).scan(READ)]


@pytest.mark.parametrize(
    "server",
    [Server(), Server(start_after=False), Server(truncated=False), Server(start_after=False, truncated=False)],
    ids=["as S3", "start-after ignored", "IsTruncated left out", "both"],
)
def test_every_new_file_is_found_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(server, monkeypatch) == NEW


def test_a_listing_that_does_not_say_where_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageUnavailable, match="not where"):
        listed(Server(token=False), monkeypatch)


def test_folders_own_entries_do_not_hide_that_a_server_makes_no_leaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that holds nothing else comes first, behind each leap too."""
    folders = [f"a/{number}/" for number in range(PAGE)]
    assert listed(Server(start_after=False, keys=folders + KEYS), monkeypatch) == NEW


def test_a_server_with_another_order_that_begins_anew_is_walked_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first key is behind the span that is leapt over."""
    keys = ["d/t/9/CDC1.json", *KEYS]
    server = Server(start_after=False, keys=keys)
    assert listed(server, monkeypatch) == [keys[0], *NEW]
