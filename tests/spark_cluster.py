"""A standalone Spark master with workers, on 127.0.0.1, on free ports, in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pyspark

from tests.servers import free_port

_START_SECONDS = 180


class SparkCluster:
    """``with SparkCluster(workers=2) as cluster: cluster.url``. `cores` are those of a worker, `java_options` for
    master and workers."""

    def __init__(self, workers: int = 2, java_options: str = "", cores: int = 1) -> None:
        self._workers, self._java_options, self._cores = workers, java_options, cores
        self._folder = Path(tempfile.mkdtemp(prefix="spark-"))
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def executors(self) -> list[psutil.Process]:
        """The JVMs that run tasks for an application, on all workers."""
        found: list[psutil.Process] = []
        for process in self._processes:
            with contextlib.suppress(psutil.Error):  # one that ended meanwhile
                children = psutil.Process(process.pid).children(recursive=True)
                found += [child for child in children if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline())]
        return found

    def __enter__(self) -> SparkCluster:
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(self._port))
        self._wait_for("master", "I have been elected leader")
        for number in range(self._workers):
            name = f"worker{number}"
            work = ["--work-dir", str(self._folder / name), "--cores", str(self._cores), "--memory", "1g"]
            self._start(name, "org.apache.spark.deploy.worker.Worker", *work, self.url)
        for number in range(self._workers):
            self._wait_for(f"worker{number}", "Successfully registered with master")
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(timeout=30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, name: str, main: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        command = [
            f"{home}/bin/spark-class", main, "--host", "127.0.0.1", "--webui-port", str(free_port()),
        ]  # fmt: skip
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": self._java_options,
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([*command, *arguments], stdout=log, stderr=log, env=environment)
        self._processes.append(process)

    def _wait_for(self, name: str, text: str) -> None:
        log = self._folder / f"{name}.log"
        deadline = time.monotonic() + _START_SECONDS
        while text not in log.read_text(errors="replace"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
