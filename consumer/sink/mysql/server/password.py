"""The password for a new connection: the one of the settings, or what a command prints (a token lives for minutes)."""

from __future__ import annotations

import subprocess

from consumer.errors import BadConfig, TargetUnavailable
from consumer.sink.mysql.settings import MySqlSettings

_WITHIN = 30
"""Seconds."""


def password_of(settings: MySqlSettings) -> bytes:
    """Runs the command, without a shell, at each call. Nothing that it prints is shown anywhere. Raises BadConfig where
    it cannot be run, TargetUnavailable where it fails."""
    if not settings.password_command:
        return settings.password.encode()
    program = settings.password_command[0]
    try:
        done = subprocess.run(
            settings.password_command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WITHIN, check=False
        )
    except OSError as error:
        raise BadConfig(
            f"password-command in --downstream-uri: {program} cannot be run: {error.strerror}",
            hint="give the path of a program of this machine, and of each machine that executors run on",
        ) from None
    except subprocess.TimeoutExpired:
        raise _failed(program, f"did not end within {_WITHIN} s") from None
    if done.returncode:
        raise _failed(program, f"ended with exit code {done.returncode}")
    password = done.stdout.removesuffix(b"\n").removesuffix(b"\r")
    if not password or b"\n" in password:
        raise _failed(program, "printed more than one line" if password else "printed nothing")
    return password


def _failed(program: str, how: str) -> TargetUnavailable:
    return TargetUnavailable(
        f"password-command in --downstream-uri: {program} {how}",
        hint="run it by hand as this user; what it prints is not shown here",
    )
