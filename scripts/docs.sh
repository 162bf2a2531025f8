#!/usr/bin/env bash
# Builds the site of the documentation into build/docs: static files, search included, for any web server.
set -euo pipefail
cd "$(dirname "$0")/docs"

if ! command -v npm >/dev/null; then
	echo 'docs.sh: npm is missing: install Node 20.19 or newer' >&2
	exit 1
fi
if [ node_modules/.package-lock.json -ot package-lock.json ]; then
	npm ci --no-audit --no-fund --loglevel=error
fi
npm run --silent build
echo "docs.sh: build/docs is ready; look at it with: python3 -m http.server --directory build/docs" >&2
