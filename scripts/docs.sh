#!/usr/bin/env bash
# The site of README and docs, in build/site. Links between the pages are those of the repository, so the pages stand in a
# folder as they stand there. A link that leads nowhere ends the build.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
wanted=$("$python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])')
# shellcheck disable=SC2086
"$python" -m pip install --quiet --disable-pip-version-check $wanted
rm -rf build/pages
mkdir -p build/pages
cp -- *.md LICENSE compose.yaml build/pages
cp -R docs build/pages
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs --quiet build --strict
echo "docs: build/site/index.html"
