#!/usr/bin/env bash
# Resolve pyproject.toml anew, in a virtualenv of its own, and write the versions found to requirements.lock.
set -euo pipefail
cd "$(dirname "$0")/.."

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
"${PYTHON:-python3}" -m venv "$fresh/venv"
"$fresh/venv/bin/python" -m pip install --quiet --disable-pip-version-check ".[dev]" "$@"
"$fresh/venv/bin/python" -m pip freeze --exclude ticdc-storage-consumer >"$fresh/lock"
cp "$fresh/lock" requirements.lock
