#!/usr/bin/env bash
# Run the tests. Those that fail beside the others are run once more, alone: a machine at its limit is no fault of
# the program. Both runs are printed; a test that fails alone too fails the whole.
set -uo pipefail
python=.venv/bin/python
most=100  # a server of a whole session that did not start is tens of tests
kept=.pytest_cache/v/cache/lastfailed

rm -f "$kept"
"$python" -m pytest -n 4 --dist loadfile --no-loadscope-reorder
code=$?
[ "$code" = 1 ] || exit "$code"
failed=$("$python" -c 'import json, sys; print(len(json.load(open(sys.argv[1]))))' "$kept") || exit "$code"
[ "$failed" -le "$most" ] || exit "$code"
printf '\n%s of the tests failed. Once more, alone:\n' "$failed"
exec "$python" -m pytest --last-failed --last-failed-no-failures none -v
