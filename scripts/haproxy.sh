#!/bin/sh
# Makes sure that HAProxy is there, for the test of a rolling restart. Says nothing if it is. Otherwise, as root with
# apt-get, the distribution's package, which it does not start; else what to install; that test is left out then,
# but in CI, where it fails.
set -eu

PATH=$PATH:/usr/sbin:/usr/local/sbin
if command -v haproxy >/dev/null; then
	exit
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo 'haproxy.sh: installing HAProxy with apt-get' >&2
	# apt works as another user, for whom our TMPDIR may be out of reach.
	tmp=$(mktemp -d /tmp/prewarm-apt.XXXXXX)
	chmod 1777 "$tmp"
	# What a package would start, it asks this for first.
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		trap 'rm -f "$policy"' EXIT
	fi
	{ TMPDIR=$tmp apt-get update -q && TMPDIR=$tmp DEBIAN_FRONTEND=noninteractive \
		apt-get install -qy --no-install-recommends haproxy; } >&2 || true
	rm -rf "$tmp"
fi
command -v haproxy >/dev/null || echo 'haproxy.sh: HAProxy is not there: the test of a rolling restart is left out (with CI set, it fails).
Install it with apt-get install haproxy, dnf install haproxy or brew install haproxy.' >&2
