"""One bank over three clusters, each with a storage of its own."""

from __future__ import annotations

from pathlib import Path

from consumer.model.times import ms_to_tso
from tests.support.feed import Feed

NAMES = ("eu", "us", "asia")
TOTAL = 300
_CREATED = ms_to_tso(1_700_000_000_000)


def tso(second: float) -> int:
    """Seconds after the databases were created."""
    return _CREATED + ms_to_tso(round(1000 * second))


class Bank:
    """What the clusters hold in bank.a is TOTAL at every moment. `config` is the file of a consumer of all three: its
    tables in the target are eu.a, us.a, asia.a."""

    def __init__(self, folder: Path, target: str) -> None:
        self.folder, self.target = folder, target
        self.held = dict.fromkeys(NAMES, 100)
        self.feeds = {name: Feed(folder / name) for name in NAMES}
        for feed in self.feeds.values():
            feed.folder.mkdir()
            feed.database("bank", tso(0))
            feed.create("bank.a", tso(1))
            feed.puts("bank.a", tso(1), {tso(2): (1, "100")})
            feed.checkpoint(tso(2))
        self.config = folder / "bank.toml"
        self.write()

    def write(self, general: str = "together = true\n") -> None:
        entries = "".join(
            f"""
[[consumer.upstreams]]
name = "{name}"
uri = "file://{self.folder}/{name}?protocol=canal-json"
routes = [{{ from = "bank.*", to = "{name}.*" }}]
"""
            for name in NAMES
        )
        text = f'[consumer]\ntz = "UTC"\ndownstream-uri = "{self.target}"\n{general}{entries}'
        self.config.write_text(text, encoding="utf-8")

    def move(self, second: float, source: str, to: str, money: int) -> None:
        """A transaction over two clusters, which has one commit-ts."""
        self.held[source] -= money
        self.held[to] += money
        for name in (source, to):
            self.feeds[name].puts("bank.a", tso(1), {tso(second): (1, str(self.held[name]))})

    def checkpoints(self, **seconds: float) -> None:
        for name, second in seconds.items():
            self.feeds[name].checkpoint(tso(second))
