#!/usr/bin/env bash
# Makes sure that there is a Helm of the version below, for the tests of the chart (deploy/helm), and prints its path. Says
# nothing else if it is there. Otherwise it builds it from its Go module (helm/go.mod), which takes four minutes and more on
# two cores. It is kept beneath the user's cache. With -n it builds nothing, and fails where Helm is not there.
set -euo pipefail

version=v4.3.1 # helm/go.mod has the same

cd "$(dirname "$0")/helm"
here=${XDG_CACHE_HOME:-$HOME/.cache}/prewarm/helm-$version
if [ ! -x "$here/helm" ]; then
	[ "${1:-}" != -n ] || exit 1
	command -v go >/dev/null || { echo 'helm.sh: Go 1.26 or newer is needed: https://go.dev/dl/' >&2; exit 1; }
	mkdir -p "$here"
	exec 9>"$here/lock"
	flock 9
	if [ ! -x "$here/helm" ]; then
		echo "helm.sh: building Helm $version, once" >&2
		CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false go build -mod=readonly -trimpath -o "$here/helm.new" \
			-ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$version" helm.sh/helm/v4/cmd/helm
		mv "$here/helm.new" "$here/helm"
	fi
fi
echo "$here/helm"
