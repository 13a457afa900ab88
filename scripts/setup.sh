#!/usr/bin/env bash
# Everything a checkout needs: Java and MariaDB (for the tests) from apt, Python packages from the lock file into .venv.
# Says nothing and changes nothing where all of it is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
# A login without a home has no place for caches.
[ -n "${HOME:-}" ] || export HOME="$PWD/build/home"

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
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

install_system_packages() {
  local python=$1 packages=()
  if ! command -v apt-get >/dev/null; then
    echo "setup: install a Java 17 runtime, MariaDB server and Python's venv module; apt-get is not here to do it" >&2
    return 1
  fi
  as_root apt-get update -qq
  java_is_new_enough || packages+=("$(java_package)")
  has_mariadb || packages+=(mariadb-server)
  has_zones || packages+=(tzdata)
  can_make_venv "$python" || packages+=("$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
}

python=$(find_python)
if ! java_is_new_enough || ! has_mariadb || ! has_zones || ! can_make_venv "$python"; then
  install_system_packages "$python"
fi

# The folder is part of the sum: a virtualenv that was moved does not work.
sum=$({ pwd; cat requirements.lock pyproject.toml; } | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$venv/.setup-done" 2>/dev/null || true)" = "$sum" ] && "$venv/bin/storage-consumer" --version >/dev/null 2>&1; then
  "$venv/bin/python" -m consumer.spark.make_archive
  exit 0
fi
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  "$python" -m venv --clear "$venv"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.lock
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
"$venv/bin/python" -m consumer.spark.make_archive
echo "$sum" >"$venv/.setup-done"
