"""An object store in memory, as far as the consumer asks fsspec's Google filesystem for it: what it writes is whole at
once, and a listing is read page by page while others go on writing."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

BASE = "bucket/changefeed"


@dataclass(frozen=True, slots=True)
class Object:
    content: bytes
    generation: int


class Bucket:
    """`objects` by path below the prefix. `moment` is called before every request: what it raises is the answer.
    `page` is how many names a request for a listing gives, `in_order` whether they come as they are sorted."""

    def __init__(self, base: str, moment: Callable[[str], None], page: int, in_order: bool) -> None:
        self.base, self.objects, self._moment, self._page = base, dict[str, Object](), moment, page
        self._place: Callable[[str], object] = (lambda path: path) if in_order else (lambda path: crc32(path.encode()))
        self._names: list[str] = []
        self._generations = 0

    def put(self, path: str, content: bytes) -> None:
        self._generations += 1
        if path not in self.objects:
            insort(self._names, path, key=self._place)
        self.objects[path] = Object(content, self._generations)

    def delete(self, path: str) -> None:
        if self.objects.pop(path, None) is not None:
            self._names.remove(path)

    # What fsspec's filesystem has

    def find(self, base: str, detail: bool) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        last: str | None = None
        while True:
            self._moment("list a page")
            begin = 0 if last is None else bisect_right(self._names, self._place(last), key=self._place)
            page = self._names[begin : begin + self._page]
            for path in page:
                found[path] = self._info(path)
            if len(page) < self._page:
                return found
            last = page[-1]

    def ls(self, path: str, detail: bool = True) -> list[dict[str, Any]]:
        return []  # asked of an empty bucket, to see that it is there

    def call(self, *_: object, **__: object) -> None:
        """ReadOptions when a file is not there, to see that the bucket is."""

    def cat_file(self, path: str, start: int, end: int, generation: str | None = None) -> bytes:
        own = path[len(self.base) + 1 :]
        self._moment(f"read {own}")
        found = self.objects.get(own)
        if found is None or (generation is not None and str(found.generation) != generation):
            raise FileNotFoundError(path)
        return found.content[start:end]

    def _info(self, path: str) -> dict[str, Any]:
        found = self.objects[path]
        return {
            "name": f"{self.base}/{path}",
            "type": "file",
            "size": len(found.content),
            "generation": str(found.generation),
        }
