#!/bin/sh
# Fails, and shows the difference, if the generated code in database/ is not what sqlc makes of queries/ and the
# migrations. The arguments are the command that runs sqlc. It works on a copy: what is in the tree stays as it is.
set -eu
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/database" "$copy/committed"
cp -r sqlc.yaml queries "$copy"
cp -r database/migrations "$copy/database"
find database -name '*.sql.go' | while read -r file; do
	mkdir -p "$copy/committed/$(dirname "${file#database/}")"
	cp "$file" "$copy/committed/${file#database/}"
done
scripts/gen-sql.sh "$copy" "$@"
rm -r "$copy/database/migrations"
if ! (cd "$copy" && diff -ruN committed database); then
	echo 'gen-check.sh: the generated code is not current: run `make gen`' >&2
	exit 1
fi
