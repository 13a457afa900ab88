"""``python -m tests.simulate``: play histories from seeds on, for some minutes or so many, on all cores; a failing one
is made short and told as a story. Exit code 1 if one fails."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.simulate.cases import FOLDER, to_json
from tests.simulate.events import BEHIND_A_COMMIT, History
from tests.simulate.machine import BEHIND
from tests.simulate.play import play
from tests.simulate.readers.asking import READ, REFUSED
from tests.simulate.seeds import LAKE, batches
from tests.simulate.shrink import shrunk
from tests.simulate.themes import THEMES


def main() -> int:
    flags = argparse.ArgumentParser(prog="python -m tests.simulate", description=__doc__)
    flags.add_argument("--minutes", type=float, default=1.0, help="how long to play (1)")
    flags.add_argument("--seed", type=int, default=int(time.time()) % 10**9, help="the first seed (by the clock)")
    flags.add_argument("--count", type=int, default=0, help="so many seeds, instead of minutes")
    flags.add_argument("--story", action="store_true", help="tell the story of each, failing or not")
    flags.add_argument("--keep", default="", metavar="NAME", help="keep the short history among the tests")
    flags.add_argument("--keep-going", action="store_true", help="go on behind a failure")
    flags.add_argument(
        "--consistency", default="row", choices=("row", "table", "snapshot"), help="what readers see (row)"
    )
    flags.add_argument("--lake", action="store_true", help="on a target whose commits are of one table each")
    flags.add_argument("--theme", default="", choices=THEMES, metavar="NAME", help="histories of one theme (of all)")
    flags.add_argument("--readers", action="store_true", help="hold against upstream's past what readers give, too")
    flags.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side (one a core)")
    given = flags.parse_args()
    began, cpu, played, failed = time.monotonic(), 0.0, 0, 0
    happened, level = Counter[str](), LAKE if given.lake else given.consistency
    asked = (given.theme, given.readers)
    for batch in batches(given.seed, given.count, 60 * given.minutes, level, given.jobs, *asked):
        happened += batch.happened
        played, cpu, failed = played + batch.played, cpu + batch.cpu, failed + len(batch.failed)
        for seed, story in batch.stories.items() if given.story else ():
            print(f"seed {seed}", *story, sep="\n")
        for found, problem in batch.failed:
            tell(found, problem, given.keep, given.readers)
        if failed and not given.keep_going:
            break
    seconds = time.monotonic() - began
    print(
        f"{played} histories from seed {given.seed} in {seconds:.0f} s ({1000 * cpu / max(played, 1):.0f} ms of CPU"
        f" each, {played / seconds * 60:.0f} a minute), {failed} failed"
    )
    for moment in BEHIND if given.lake else ():
        print(
            ", ".join(f"{happened[f'{kind} {moment}']} times {kind}" for kind in dict.fromkeys(BEHIND_A_COMMIT)), moment
        )
    for line in refusals(happened):
        print(line)
    return 1 if failed else 0


def refusals(happened: Counter[str]) -> Iterator[str]:
    """How often each reader was asked, and how often it refused."""
    for reader in (name.removesuffix(READ) for name in sorted(happened) if name.endswith(f" {READ}")):
        begin, asked, refused = f"{reader}{REFUSED}: ", happened[reader + READ], happened[reader + REFUSED]
        kinds = [f", {n} {name.removeprefix(begin)}" for name, n in sorted(happened.items()) if name.startswith(begin)]
        yield f"{reader}{READ} {asked} times, {REFUSED} {refused} times{''.join(kinds)}"


def tell(found: History, problem: str, keep: str, readers: bool) -> None:
    """Print the shortest story with this kind of failure; `keep` it under that name."""
    kind = kind_of(problem)
    short = shrunk(found, lambda tried: kind_of(play(tried, readers).problem) == kind)
    played = play(short, readers)
    print(f"seed {found.seed} fails: {played.problem}\n{short.setup}", *played.story, sep="\n  ")
    if keep:
        (FOLDER / f"{keep}.json").write_text(to_json(short))


def kind_of(problem: str) -> str:
    """The words of a failure, without its names and numbers."""
    return " ".join(word for word in problem.split(":")[0].split() if word.isalpha())


if __name__ == "__main__":
    sys.exit(main())
