#!/bin/sh
# Makes sure that sshd is there, for the tests of the provider hosts, and ssh and rsync, for those of SSH into a workspace. Says
# nothing if they are. Otherwise, as root with apt-get, the distribution's packages, which it does not start; else what to
# install, and those tests are left out (in CI they fail).
set -eu

PATH=$PATH:/usr/sbin:/usr/local/sbin
there() { command -v sshd && command -v ssh && command -v rsync; } >/dev/null
if there; then
	exit
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo 'sshd.sh: installing openssh and rsync with apt-get' >&2
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
		apt-get install -qy --no-install-recommends openssh-server openssh-client rsync; } >&2 || true
	rm -rf "$tmp"
fi
there || echo 'sshd.sh: sshd, ssh or rsync is not there: tests of the provider hosts, or of SSH into a workspace, are left out.
Install them with apt-get install openssh-server openssh-client rsync or dnf install openssh-server openssh-clients rsync.' >&2
