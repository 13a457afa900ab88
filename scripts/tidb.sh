#!/usr/bin/env bash
# A TiDB server and a Dumpling under build/tidb, for the tests: built from the modules that scripts/tidb names, which takes
# about 15 minutes of CPU the first time. Where they cannot be had, says why, and the tests that need them are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

target=build/tidb
[ ! -e "$target" ] || exit 0

cannot() {
  echo "tidb: $1; tests on a real TiDB are skipped" >&2
  exit 0
}

command -v go >/dev/null || cannot "go is not here to build it"
mkdir -p build
work=$(mktemp -d "$PWD/build/tidb.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp scripts/tidb/go.mod scripts/tidb/go.sum "$work"

# What a newer Go builds ends in a panic; the checksum database lacks some modules, go.sum has them all.
export GOTOOLCHAIN=go1.25.6 GOFLAGS=-mod=mod GONOSUMDB='*'
build() {
  (cd "$work" && nice go build -o "$1" "github.com/pingcap/tidb/$2") 2>"$work/log" \
    || cannot "$1 cannot be built ($(tail -n 1 "$work/log"))"
}
build tidb-server cmd/tidb-server
build dumpling dumpling/cmd/dumpling
mkdir "$work/done"
mv "$work/tidb-server" "$work/dumpling" "$work/done"
mv "$work/done" "$target"
