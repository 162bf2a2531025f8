#!/usr/bin/env bash
# Makes sure that there is a Chromium to test the web UI in, and prints where it is; PREWARM_CHROMIUM names another. Where
# there is none, as root with apt-get, it installs the distribution's package; else it says what to install, and fails.
# One without windows does the same work with a fourth less of the processor, so it comes first.
set -euo pipefail

found() {
	command -v "${PREWARM_CHROMIUM:-chromium-headless-shell}" || command -v chromium || command -v chromium-browser ||
		command -v google-chrome
}

if ! found >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo 'chromium.sh: installing Chromium with apt-get' >&2
	# apt works as another user, for whom our TMPDIR may be out of reach.
	tmp=$(mktemp -d /tmp/prewarm-apt.XXXXXX)
	chmod 1777 "$tmp"
	{
		TMPDIR=$tmp apt-get update -q
		for package in chromium-headless-shell chromium; do
			! TMPDIR=$tmp DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$package" || break
		done
	} >&2 || true
	rm -rf "$tmp"
fi
found || {
	echo 'chromium.sh: the web UI is tested in Chromium: install it with apt-get install chromium, dnf install chromium or brew
install chromium, or name one in PREWARM_CHROMIUM.' >&2
	exit 1
}
