"""What examples/ holds fits this program: commands, flags, variables, probes; systemd itself checks the units."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import URLError

import pytest
import yaml

from consumer import api
from consumer.cli.program import COMMANDS
from consumer.config.settings import Settings
from consumer.config.spelling import env_of
from consumer.errors import BadConfig, TargetUnavailable
from consumer.model.check import VerifyResult
from consumer.model.names import TableName
from consumer.observe.page import site
from consumer.results import RunResult, TableResult, VerifyReport
from tests.e2e.test_http import fetch, free_port
from tests.support.command_line import DEMO_TABLES, CommandLine, command_line, duckdb_tables
from tests.support.flags import flags_of_settings, own_flags

EXAMPLES = Path(__file__).parent.parent / "examples"
KUBERNETES = list(yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text(encoding="utf-8")))
UNIT = (EXAMPLES / "storage-consumer.service").read_text(encoding="utf-8")


def containers() -> list[dict[str, Any]]:
    found = []
    for thing in KUBERNETES:
        spec = thing["spec"].get("jobTemplate", thing)["spec"]
        found += spec["template"]["spec"]["containers"] if "template" in spec else []
    return found


def commands() -> list[list[str]]:
    started = re.findall(r"^ExecStart=\S+ (.*)$", UNIT, re.MULTILINE)
    return [*(container["args"] for container in containers()), *map(shlex.split, started)]


def test_commands_and_their_flags_exist() -> None:
    known = {command.name: flags_of_settings() | own_flags(command) for command in COMMANDS}
    assert len(commands()) == 3
    for name, *words in commands():
        assert {word for word in words if word.startswith("--")} <= known[name]


def test_the_scheduled_commands_run(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand, with the URIs in the environment, as the Secret and the EnvironmentFile put them there; metrics go
    to a file of the test."""
    scheduled = [words for words in commands() if words[0] == "once"]
    assert len(scheduled) == 2
    monkeypatch.setenv("STORAGE_CONSUMER_UPSTREAM_URI", f"file://{cli.storage}?protocol=canal-json")
    monkeypatch.setenv("STORAGE_CONSUMER_TZ", "UTC")
    for number, words in enumerate(scheduled):
        metrics = tmp_path / f"{number}.prom"
        monkeypatch.setenv("STORAGE_CONSUMER_DOWNSTREAM_URI", f"duckdb:///{tmp_path}/{number}.duckdb")
        words[words.index("--metrics-file") + 1] = str(metrics)
        assert cli.raw(*words).code == 0
        assert "storage_consumer_exit_code" in metrics.read_text(encoding="utf-8")
        assert duckdb_tables(f"duckdb:///{tmp_path}/{number}.duckdb") == DEMO_TABLES


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


def test_the_deployments_command_serves_what_its_probes_ask(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (words,) = [words for words in commands() if words[0] == "run"]
    (deployment,) = [one for one in containers() if "livenessProbe" in one]
    (port,) = [port["containerPort"] for port in deployment["ports"]]
    at = words.index("--http") + 1
    assert words[at].endswith(f":{port}")
    words[at] = f"0.0.0.0:{free_port()}"
    monkeypatch.setenv("STORAGE_CONSUMER_UPSTREAM_URI", f"file://{cli.storage}?protocol=canal-json")
    monkeypatch.setenv("STORAGE_CONSUMER_DOWNSTREAM_URI", f"duckdb:///{tmp_path}/replica.duckdb")
    monkeypatch.setenv("STORAGE_CONSUMER_TZ", "UTC")
    refused = cli.raw(*words)
    assert (refused.code, "http-token" in refused.err) == (2, True), "another machine reaches it"
    monkeypatch.setenv("STORAGE_CONSUMER_HTTP_TOKEN", "a token of the Secret")
    url = f"http://127.0.0.1:{words[at].partition(':')[2]}"

    def look() -> list[str]:
        return [fetch(url + deployment[probe]["httpGet"]["path"]) for probe in ("startupProbe", "livenessProbe")]

    found: list[list[str]] = []
    ends = threading.Thread(target=lambda: found.append(_once_served(url, look)))
    ends.start()
    assert cli.raw(*words).code == 0
    ends.join()
    assert found == [["ok\n", "ok\n"]]


def _once_served(url: str, look: Callable[[], list[str]]) -> list[str]:
    """What `look` returns as soon as the port answers; `run` is ended then."""
    try:
        for _ in range(600):
            with suppress(URLError, ConnectionError):
                if fetch(f"{url}/healthz"):
                    return look()
            time.sleep(0.1)
        return []
    finally:
        os.kill(os.getpid(), signal.SIGINT)


def test_variables_are_settings() -> None:
    named = {
        name
        for path in EXAMPLES.iterdir()
        if path.is_file()  # Python leaves a folder where a file was imported
        for name in re.findall(r"STORAGE_CONSUMER_\w+", path.read_text("utf-8"))
    }
    assert len(named) > 3
    assert named <= {env_of(field) for field in Settings.model_fields}


def test_probes_ask_what_is_served_without_a_token() -> None:
    served = site([], 1, "token")
    probes = [value["httpGet"]["path"] for one in containers() for key, value in one.items() if key.endswith("Probe")]
    assert len(probes) == 3
    assert set(probes) <= served.open


def test_prometheus_shows_the_token_that_metrics_need() -> None:
    """Annotations of a pod cannot: each scrape would get 401."""
    served, token = site([], 1, "a token of the Secret"), "Bearer a token of the Secret"
    assert served.answer("/metrics", {}, "").status == 401
    assert served.answer("/metrics", {}, token).status == 200
    assert "prometheus.io" not in (EXAMPLES / "kubernetes.yaml").read_text(encoding="utf-8")
    by_kind = {one["kind"]: one for one in KUBERNETES}
    deployment, monitor = by_kind["Deployment"], by_kind["PodMonitor"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert endpoint["port"] in {port["name"] for port in container["ports"]}
    assert monitor["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    secret = endpoint["authorization"]["credentials"]
    assert (secret["name"], secret["key"]) == (
        container["envFrom"][0]["secretRef"]["name"],
        env_of("http_token"),
    )


def test_node_exporter_can_read_the_metrics_of_the_unit() -> None:
    """With DynamicUser, systemd puts StateDirectory below /var/lib/private, which only root may enter."""
    settings = dict(line.split("=", 1) for line in UNIT.splitlines() if "=" in line and not line.startswith("#"))
    words = shlex.split(settings["ExecStart"])
    folder = Path(words[words.index("--metrics-file") + 1]).parent
    assert folder == Path("/var/lib") / settings["StateDirectory"]
    assert "DynamicUser" not in settings
    assert (settings["StateDirectoryMode"], settings.get("UMask", "0022")) == ("0755", "0022")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for path in EXAMPLES.glob("storage-consumer.*"):
        text = path.read_text(encoding="utf-8").replace("/usr/local/bin/storage-consumer", "/bin/true")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    checked = subprocess.run(
        ["systemd-analyze", "verify", *map(str, tmp_path.iterdir())], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_functions_and_errors_that_the_dag_names_exist() -> None:
    dag = (EXAMPLES / "airflow_dag.py").read_text(encoding="utf-8")
    named = set(re.findall(r"\bapi\.(\w+)", dag))
    assert named == {"ConsumerError", "once", "verify"}
    assert named <= set(api.__all__)


class _Fails(Exception):
    """AirflowFailException: no retry."""


@pytest.fixture
def dag(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The file, where decorators of Airflow keep what they are given."""

    def decorator(function: Callable[..., Any] | None = None, **asked: object) -> Any:
        if function is None:
            return lambda of: decorator(of, **asked)
        function.asked = asked  # type: ignore[attr-defined]
        return function

    sdk, exceptions, airflow = ModuleType("airflow.sdk"), ModuleType("airflow.sdk.exceptions"), ModuleType("airflow")
    vars(sdk).update(dag=decorator, task=decorator)
    vars(exceptions).update(AirflowFailException=_Fails)
    for module in (airflow, sdk, exceptions):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    ran: list[str] = []
    monkeypatch.setattr(api, "once", lambda **_: ran.append("once") or RunResult())
    monkeypatch.setattr(api, "verify", lambda **_: ran.append("verify") or VerifyReport.of(VerifyResult((), 0.0)))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = spec_from_file_location("airflow_dag", EXAMPLES / "airflow_dag.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert ran == ["once", "verify"], "each DAG has its task"
    return module


def test_runs_of_the_dags_never_overlap(dag: ModuleType) -> None:
    for one in (dag.ticdc_replica, dag.ticdc_replica_verified):
        assert (one.asked["max_active_runs"], one.asked["catchup"]) == (1, False)


@pytest.mark.parametrize(
    ("came", "raises"),
    [
        (RunResult(), None),
        (
            RunResult(exit_code=3, tables={TableName("d", "t"): TableResult(state="stopped", error="why")}),
            _Fails,
        ),
        (RunResult(exit_code=3, tables={TableName("d", "t"): TableResult(quarantined=2, bad_row="one")}), _Fails),
        (RunResult(exit_code=5, error="a statement is refused"), _Fails),
        (RunResult(exit_code=4, tables={TableName("d", "t"): TableResult(state="waits")}), RuntimeError),
        (BadConfig("wrong", hint="right"), _Fails),
        (TargetUnavailable("away"), TargetUnavailable),  # which Airflow tries again
    ],
)
def test_what_the_dag_makes_of_a_run(
    came: RunResult | Exception, raises: type[Exception] | None, dag: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(**_: object) -> RunResult:
        if isinstance(came, Exception):
            raise came
        return came

    monkeypatch.setattr(api, "once", once)
    if raises is None:
        assert dag.once() == RunResult().lag_seconds
    else:
        with pytest.raises(raises):
            dag.once()
