"""Spark for a target that is written by it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from consumer.ports import Loader
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SharedSpark:
    """A `SparkSource`: the session of `loader`, or, if that does not use Spark, of a loader of its own."""

    def __init__(self, settings: SparkSettings, loader: Loader | None) -> None:
        self._own = None if isinstance(loader, SparkLoader) else SparkLoader(settings)
        self._loader = loader if isinstance(loader, SparkLoader) else self._own

    def session(self) -> SparkSession:
        assert self._loader is not None
        return self._loader.session()

    def exists(self, path: str) -> bool:
        if path.startswith("/"):
            return os.path.exists(path)
        files, place = self._path(path)
        return bool(files.exists(place))

    def names(self, folder: str) -> list[str]:
        if folder.startswith("/"):
            return os.listdir(folder) if os.path.isdir(folder) else []
        files, place = self._path(folder)
        return [found.getPath().getName() for found in files.listStatus(place)] if files.exists(place) else []

    def read(self, path: str) -> bytes:
        if path.startswith("/"):
            return Path(path).read_bytes()
        from consumer.spark.internals import bytes_in

        files, place = self._path(path)
        return bytes_in(self.session(), files.open(place))

    def write(self, path: str, content: bytes) -> None:
        if path.startswith("/"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(path).write_bytes(content)
            return
        files, place = self._path(path)
        stream = files.create(place, False)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def java(self) -> tuple[Any, Any]:
        from consumer.spark.internals import java_of

        return java_of(self.session())

    def java_frame(self, frame: Any) -> Any:
        from consumer.spark.internals import java_frame

        return java_frame(frame)

    def remove(self, path: str) -> None:
        if path.startswith("/"):
            if Path(path).is_dir():
                shutil.rmtree(path, onerror=_unless_gone)
            Path(path).unlink(missing_ok=True)
        else:
            files, place = self._path(path)
            files.delete(place, True)

    def _path(self, path: str) -> tuple[Any, Any]:
        from consumer.spark.internals import path_in

        return path_in(self.session(), path)

    def close(self) -> None:
        if self._own is not None:
            self._own.close()


def _unless_gone(_: object, __: str, failed: tuple[Any, BaseException, Any]) -> None:
    """Another process may remove the same folder."""
    if not isinstance(failed[1], FileNotFoundError):
        raise failed[1]


class GivenSpark(SharedSpark):
    """A `SparkSource`: a session that somebody else owns."""

    def __init__(self, session: SparkSession) -> None:
        self._own, self._given = None, session

    def session(self) -> SparkSession:
        return self._given
