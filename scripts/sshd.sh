#!/bin/sh
# Makes sure that sshd is there, for the tests of the provider hosts. Says nothing if it is. Otherwise, as root with
# apt-get, the distribution's package, which it does not start; else what to install, and those tests are left out (in CI
# they fail).
set -eu

PATH=$PATH:/usr/sbin:/usr/local/sbin
if command -v sshd >/dev/null; then
	exit
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo 'sshd.sh: installing openssh-server with apt-get' >&2
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
		apt-get install -qy --no-install-recommends openssh-server; } >&2 || true
	rm -rf "$tmp"
fi
command -v sshd >/dev/null || echo 'sshd.sh: sshd is not there: the tests of the provider hosts are left out.
Install it with apt-get install openssh-server or dnf install openssh-server.' >&2
