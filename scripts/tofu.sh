#!/usr/bin/env bash
# Makes sure that there is an OpenTofu of the version below, and prints its path. Says nothing else if it is there. Otherwise it builds it
# from its Go module, which takes some minutes on two cores. It is kept beneath the user's cache, and nothing is left anywhere
# else but in Go's own caches.
set -euo pipefail

version=v1.12.6

command -v go >/dev/null || { echo 'tofu.sh: Go 1.26 or newer is needed: https://go.dev/dl/' >&2; exit 1; }
here=${XDG_CACHE_HOME:-$HOME/.cache}/prewarm/opentofu-$version
if [ ! -x "$here/tofu" ]; then
	mkdir -p "$here"
	echo "tofu.sh: building OpenTofu $version, once" >&2
	export CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false
	# The module replaces others, so `go install` refuses it: it is built where it lies.
	module=$(go mod download -json "github.com/opentofu/opentofu@$version" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
	(cd "$module" && go build -mod=readonly -trimpath -ldflags "-s -w -X github.com/opentofu/opentofu/version.dev=no" -o "$here/tofu.new" ./cmd/tofu)
	mv "$here/tofu.new" "$here/tofu"
fi
echo "$here/tofu"
