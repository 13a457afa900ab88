"""`run`: a replica that never ends."""

from __future__ import annotations

from consumer.cli.command import Command
from consumer.cli.session import Invocation
from consumer.cli.several import beside


def run(call: Invocation) -> int:
    """Keep the target equal to the upstream: look for new files every --flush-interval until a signal comes."""
    from consumer import app

    return call.finish(app.run(call.settings, call.observer, call.stop))


COMMAND = Command(
    "run",
    run,
    "storage-consumer run --upstream-uri 's3://bucket/cdc?protocol=canal-json' "
    "--downstream-uri mysql://root@127.0.0.1:3306/ --flush-interval 5s --log-format json",
    endless=True,
    of_all=beside,
)
