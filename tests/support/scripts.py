"""Files of statements, run as a person runs them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import duckdb

from tests.servers import SqlServer


def run_on_server(script: Path, server: SqlServer) -> None:
    """With the client program, which stops at the first error. Raises CalledProcessError."""
    command = ["mariadb", "--no-defaults", "--host=127.0.0.1", f"--port={server.port}", "--user=root", "--skip-ssl"]
    with script.open("rb") as file:
        subprocess.run(command, stdin=file, check=True, capture_output=True)


def run_on_file(script: Path, file: Path) -> None:
    """One statement after the other. Raises duckdb.Error."""
    with duckdb.connect(str(file)) as connection:
        for statement in connection.extract_statements(script.read_text()):
            connection.execute(statement)
