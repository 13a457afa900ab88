#!/usr/bin/env bash
# Resolve pyproject.toml again, in a virtualenv of its own. The versions found go to requirements.lock, which is what the
# program needs, and those of the packages that only development needs, or another storage, to requirements-dev.lock.
set -euo pipefail
cd "$(dirname "$0")/.."

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
"${PYTHON:-python3}" -m venv "$fresh/venv"

# resolve WHAT FILE WORDS..: install it, and write the versions of all that is there to FILE.
resolve() {
  local what=$1 file=$2
  shift 2
  "$fresh/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$what" "$@"
  "$fresh/venv/bin/python" -m pip freeze --exclude ticdc-storage-consumer >"$file"
}

resolve . "$fresh/lock" "$@"
resolve ".[dev]" "$fresh/all" --constraint "$fresh/lock" "$@"
grep -vxFf "$fresh/lock" "$fresh/all" >"$fresh/dev"
cp "$fresh/lock" requirements.lock
cp "$fresh/dev" requirements-dev.lock
