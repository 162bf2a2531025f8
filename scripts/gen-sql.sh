#!/bin/sh
# Generates database/*.sql.go and database/*db/*.sql.go from queries/ and the migrations.
#
#   scripts/gen-sql.sh DIR SQLC…   in the tree DIR, with the command that runs sqlc
#
# sqlc writes the row of a table as a struct in each group that reads it whole. Here it becomes an alias of the one in
# package database, so that rooms pass rows on without conversions. A group that reads none needs no file for it.
set -eu
dir=$1
shift
rm -f "$dir"/database/*.sql.go "$dir"/database/*db/*.sql.go
env "$@" generate --file "$dir/sqlc.yaml"
for models in "$dir"/database/*db/models.sql.go; do
	awk '
		/^\/\/ / && !rows { print }
		/^package / { name = $0 }
		/^type .* struct/ { rows = rows "type " $2 " = database." $2 "\n" }
		END {
			if (!rows) exit 1
			print "\n" name "\n\nimport \"github.com/prewarm-dev/prewarm/database\"\n"
			printf "%s", rows
		}
	' "$models" >"$models.new" || rm "$models.new" "$models"
	[ ! -e "$models.new" ] || mv "$models.new" "$models"
done
