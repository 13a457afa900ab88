#!/usr/bin/env bash
# A MySQL server under build/mysql, for the tests: from Debian's unstable suite, or Ubuntu's own. It is unpacked, not
# installed, with all libraries that it needs, and nothing else of the machine changes. Where it cannot be had, says why,
# and the tests that need it are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

target=build/mysql
[ ! -e "$target" ] || exit 0

cannot() {
  echo "mysql: $1; tests on a real MySQL are skipped" >&2
  exit 0
}

command -v apt-get >/dev/null && command -v dpkg >/dev/null || cannot "apt-get is not here to get it"
. /etc/os-release
mkdir -p build
work=$(mktemp -d "$PWD/build/mysql.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Lines "URI suite component" of what this machine's apt reads packages from.
machine_sources() {
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages'
}

wanted_sources() {
  case "$ID" in
    debian) machine_sources | awk '$3 == "main" && $2 !~ /-/ { print $1, "unstable", "main"; exit }' ;;
    ubuntu) machine_sources ;;
  esac
}

write_sources() {
  local keyring trust=""
  for keyring in "/usr/share/keyrings/$ID-archive-keyring".{pgp,gpg}; do
    if [ -e "$keyring" ]; then trust="[signed-by=$keyring] "; fi
  done
  wanted_sources | sed "s|^|deb $trust|" >"$work/sources.list"
  [ -s "$work/sources.list" ]
}

# apt with lists, a cache and a status file of its own: it believes that nothing is installed.
apt() {
  local tool=$1
  shift
  "$tool" -qq -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
    -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
    -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=false -o Acquire::Languages=none \
    -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 "$@" </dev/null
}

newest_package() {
  apt apt-cache search --names-only '^mysql-server-core(-[0-9.]+)?$' | cut -d ' ' -f 1 | sort -V | tail -n 1
}

write_sources || cannot "no package source of $ID is known to have it"
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,root}
touch "$work/status"
apt apt-get update 2>"$work/log" || cannot "the package lists cannot be read ($(tail -n 1 "$work/log"))"
package=$(newest_package)
[ -n "$package" ] || cannot "no package source of this machine has it"
apt apt-get install --download-only --yes "$package" >"$work/log" 2>&1 \
  || cannot "$package cannot be downloaded ($(tail -n 1 "$work/log"))"
for file in "$work"/cache/archives/*.deb; do
  dpkg --extract "$file" "$work/root"
done
mv "$work/root" "$target"
