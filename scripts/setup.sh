#!/usr/bin/env bash
# What a checkout needs. `setup.sh demo`: Java by apt, the packages of requirements.lock in .venv. `setup.sh`: also an
# archive of classes, with which Spark starts faster. `setup.sh tools`: also what only tests need, MariaDB by apt and the
# packages of requirements-dev.lock. A line for each step, with its time. Says nothing and changes nothing where all of
# it is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
# A login without a home has no place for caches.
[ -n "${HOME:-}" ] || export HOME="$PWD/build/home"

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# step NAME WHAT COMMAND..: run it, and tell how long it took. What it says itself is kept, and shown if it fails. In a
# function that it runs `set -e` has no effect.
step() {
  local log="build/setup-$1.log" what=$2 began=$SECONDS
  shift 2
  mkdir -p build
  if ! "$@" >"$log" 2>&1 </dev/null; then
    printf 'setup: %s failed; the end of %s:\n' "$what" "$log" >&2
    tail -n 20 "$log" >&2
    return 1
  fi
  echo "setup: $what: $((SECONDS - began)) s"
}

java_is_new_enough() {
  local version
  command -v java >/dev/null || return 1
  version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  [ "${version:-0}" -ge 17 ]
}

has_mariadb() {
  command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ]
}

has_zones() {
  [ -e /usr/share/zoneinfo/Europe/Berlin ]
}

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3} python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "setup: Python 3.11 or newer is needed; name it with PYTHON=..." >&2
  return 1
}

can_make_venv() {
  "$1" -c 'import ensurepip, venv' 2>/dev/null
}

java_package() {
  local package
  for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      echo "$package"
      return
    fi
  done
  echo default-jre-headless
}

# apt_install WORDS..: packages; `java` is the one that this release has.
apt_install() {
  local word packages=()
  as_root apt-get update -qq || return
  for word in "$@"; do
    if [ "$word" = java ]; then packages+=("$(java_package)"); else packages+=("$word"); fi
  done
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
}

# by_apt WORDS..: one step, if there is anything to install.
by_apt() {
  [ $# -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    echo "setup: install these; apt-get is not here to do it: $*" >&2
    return 1
  fi
  step apt "$* by apt" apt_install "$@"
}

# `--no-compile`: Python compiles what is imported; all of it would take longer than the demo.
packages() {
  local list lists=()
  for list in "$@"; do lists+=(-r "$list"); done
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "${lists[@]}" || return
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
}

# The folder is part of the sum: a virtualenv that was moved does not work.
sum_of() {
  { pwd; cat pyproject.toml "$@"; } | sha256sum | cut -d ' ' -f 1
}

is_done() {
  [ "$(cat "$venv/$1" 2>/dev/null || true)" = "$2" ] && "$venv/bin/storage-consumer" --version >/dev/null 2>&1
}

count() {
  grep -c == "$1"
}

setup() {
  local python system=() apt=() sum
  python=$(find_python)
  java_is_new_enough || apt+=(java)
  has_zones || apt+=(tzdata)
  can_make_venv "$python" || system+=("$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")
  sum=$(sum_of requirements.lock)
  if [ ${#apt[@]} -eq 0 ] && is_done .setup-done "$sum"; then return; fi
  # A password is asked for here, and not behind the steps.
  [ ${#apt[@]} -eq 0 ] || [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null || sudo -v
  by_apt "${system[@]}"
  # Beside one another: apt waits for the network and the disk, pip for the processor.
  by_apt "${apt[@]}" &
  local apt_job=$!
  trap wait EXIT
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    step venv "a virtualenv in $venv" "$python" -m venv --clear "$venv"
  fi
  step packages "$(count requirements.lock) Python packages in $venv" packages requirements.lock
  wait "$apt_job"
  echo "$sum" >"$venv/.setup-done"
}

# Says nothing where there is one.
archive() {
  "$venv/bin/python" -m consumer.spark.make_archive
}

tools() {
  local apt=() sum
  has_mariadb || apt+=(mariadb-server)
  sum=$(sum_of requirements.lock requirements-dev.lock)
  by_apt "${apt[@]}"
  is_done .tools-done "$sum" && return
  step tools "$(count requirements-dev.lock) more Python packages for tests" packages requirements.lock requirements-dev.lock
  echo "$sum" >"$venv/.tools-done"
}

setup
case "${1:-}" in
  demo) ;;
  tools) archive && tools ;;
  *) archive ;;
esac
