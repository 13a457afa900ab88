"""Draw what the program prints in a terminal: ``python scripts/picture.py``, into docs/terminal.svg.

The demo's storage goes into a new DuckDB file by three commands. What they print is drawn as it is, on 100 columns.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
COLUMNS = 100
COMMANDS = ("check --tz UTC", "once --tz UTC", "status")
TITLE = "a changefeed's storage becomes a DuckDB file"


def main() -> None:
    """Run the commands in a folder of their own, and save what they print."""
    console = Console(record=True, width=COLUMNS, file=sys.stderr, force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cdc").symlink_to(ROOT / "fixtures" / "cdc" / "demo")
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(Path.home()),
            "STORAGE_CONSUMER_UPSTREAM_URI": f"file://{folder}/cdc?protocol=canal-json",
        }
        console.print(Text("$ export STORAGE_CONSUMER_UPSTREAM_URI='file:///data/cdc?protocol=canal-json'", "bold"))
        for command in COMMANDS:
            words = ["storage-consumer", *shlex.split(command), "--log-level", "warning"]
            done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
            console.print(Text(f"$ storage-consumer {command}", "bold green"))
            console.print(Text(done.stdout.replace(folder, "/data").rstrip()))
    console.save_svg(str(ROOT / "docs" / "terminal.svg"), title=TITLE)


if __name__ == "__main__":
    main()
