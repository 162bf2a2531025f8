#!/bin/sh
# Fails, and shows the difference, if database/*.sql.go is not what sqlc makes of queries/ and the migrations. The
# arguments are the command that runs sqlc. It works on a copy: what is in the tree stays as it is.
set -eu
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/database" "$copy/committed"
cp -r sqlc.yaml queries "$copy"
cp -r database/migrations "$copy/database"
cp database/*.sql.go "$copy/committed"
env "$@" generate --file "$copy/sqlc.yaml"
rm -r "$copy/database/migrations"
if ! (cd "$copy" && diff -ru committed database); then
	echo 'gen-check.sh: the generated code is not current: run `make gen`' >&2
	exit 1
fi
