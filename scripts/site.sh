#!/usr/bin/env bash
# Builds the web UI into site/dist, from where the binary embeds it; with `test` as its argument, checks and tests it too,
# the last part in a browser against bin/prewarm; with `scale`, `first-hour` or `screenshots`, runs that script of
# site/package.json. Where Node is missing or too old it says so and builds nothing: the binary then has the plain page at
# its root, and everything else. The first hour fails then: it cannot be left out.
set -euo pipefail
cd "$(dirname "$0")/../site"

enough() { node -e 'const [a, b] = process.versions.node.split("."); process.exit(+a > 20 || (+a === 20 && +b >= 19) ? 0 : 1)'; }
if ! command -v npm >/dev/null || ! command -v node >/dev/null || ! enough; then
	echo 'No Node 20.19 or newer with npm: the web UI is neither built nor tested, and the binary has a plain page for it.' >&2
	[ "${1-}" != first-hour ] || exit 1
	exit 0
fi

if [ node_modules/.package-lock.json -ot package-lock.json ]; then
	npm ci --no-audit --no-fund --loglevel=error
fi
if [ "${1-}" = test ]; then
	PREWARM_CHROMIUM=$(../scripts/chromium.sh)
	export PREWARM_CHROMIUM
	npm run --silent check
	npm run --silent test
	npm run --silent e2e
	exit
fi
if [ -n "${1-}" ]; then
	PREWARM_CHROMIUM=$(../scripts/chromium.sh)
	export PREWARM_CHROMIUM
	npm run --silent "$1"
	exit
fi
newer=$(find src public index.html package-lock.json vite.config.ts licences.ts ../go.sum ../examples/quickstart.yaml -newer dist/index.html -print -quit 2>/dev/null || echo all)
if [ ! -e dist/index.html ] || [ -n "$newer" ]; then
	npm run --silent build -- --logLevel warn
fi
