"""All that a command without Spark imports: what the fork server has of it, the commands need not import again."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import pkgutil

import typer.main

import consumer

_NOT_USED = ("consumer.spark", "consumer.storage.s3", "consumer.__main__")


def import_all() -> None:
    for module in pkgutil.walk_packages(consumer.__path__, "consumer."):
        if not module.name.startswith(_NOT_USED):
            importlib.import_module(module.name)
    for name in ("pandas", "pyarrow.json", "pyarrow.parquet", "tests.support.inline_loader", "tests.faults.program"):
        importlib.import_module(name)


import_all()
COMMAND_LINE = typer.main.get_command(importlib.import_module("consumer.cli.program").build())
"""The words that the program takes, which every command would work out again."""
gc.freeze()  # the commands share this memory
atexit.register(gc.unfreeze)  # libraries count what is left at the end
os.setpgrp()  # Ctrl-C is for the harness, which ends with the trials in hand
