#!/bin/sh
# Makes sure that dockerd is there, which tests of containers start for themselves. Says nothing if it is. Otherwise, as
# root with apt-get, the distribution's package, of which it starts nothing; else what to install, and those tests are left
# out, but on CI, where they fail.
set -eu

PATH=$PATH:/usr/sbin:/usr/local/sbin
if command -v dockerd >/dev/null; then
	exit
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo 'docker.sh: installing Docker with apt-get' >&2
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
		apt-get install -qy --no-install-recommends docker.io; } >&2 || true
	rm -rf "$tmp"
fi
command -v dockerd >/dev/null || echo 'docker.sh: dockerd is not there: the tests of containers are left out.
Install it with apt-get install docker.io, dnf install moby-engine, or as https://docs.docker.com/engine/install says,
and run the tests as root.' >&2
