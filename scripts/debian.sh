#!/usr/bin/env bash
# Makes sure that there is the root of a small Debian, for tests of what instances do at their first boot, and prints its
# folder: with cloud-init, curl, sudo and a store of authorities. Says nothing else if it is there. Otherwise, as root with
# apt-get, it is built by mmdebstrap, which is installed if it is missing, from the packages of Debian: half a minute on two
# idle cores. It is kept beneath the user's cache. Nobody may write to it: a test puts a layer of its own over it.
#
#   DEBIAN_MIRROR=URL  where the packages are; default: where this machine has those of that release from, else
#                      http://deb.debian.org/debian
set -euo pipefail

suite=bookworm
here=${XDG_CACHE_HOME:-$HOME/.cache}/prewarm/debian-$suite-$(cksum <"$0" | cut -d ' ' -f 1)
if [ -e "$here/root" ]; then
	echo "$here/root"
	exit
fi
if [ "$(id -u)" != 0 ]; then
	echo 'debian.sh: only root can build the root of a Debian' >&2
	exit 1
fi
mkdir -p "$here"
exec 9>"$here/lock"
flock 9
if [ ! -e "$here/root" ]; then
	# apt works as another user, for whom our TMPDIR may be out of reach.
	tmp=$(mktemp -d /tmp/prewarm-apt.XXXXXX)
	chmod 1777 "$tmp"
	trap 'rm -rf "$tmp"' EXIT
	export TMPDIR=$tmp DEBIAN_FRONTEND=noninteractive
	if ! command -v mmdebstrap >/dev/null; then
		if ! command -v apt-get >/dev/null; then
			echo 'debian.sh: mmdebstrap is not there, nor apt-get to install it' >&2
			exit 1
		fi
		{ apt-get update -q && apt-get install -qy --no-install-recommends mmdebstrap debian-archive-keyring; } >&2
	fi
	echo "debian.sh: building a root of Debian $suite, once" >&2
	mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(SITE) $(RELEASE)' 2>/dev/null |
		awk -v suite="$suite" '$2 == suite && !site { site = $1 } END { print site }')}
	rm -rf "$here/new"
	mmdebstrap --quiet --mode=root --format=directory --variant=essential \
		--include=ca-certificates,cloud-init,curl,passwd,procps,sudo --aptopt='APT::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/i18n/*' \
		"$suite" "$here/new" "${mirror:-http://deb.debian.org/debian}" >&2
	mv "$here/new" "$here/root"
fi
echo "$here/root"
