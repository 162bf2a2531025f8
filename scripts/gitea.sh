#!/usr/bin/env bash
# Makes sure that there are a Gitea server and its runner of the versions below, for `make gitea-e2e`, and prints the folder
# that they are in: gitea, gitea-runner, and gitea-root, the templates and other files that the server reads. Says nothing
# else if they are there. Otherwise it builds both from their Go modules, which takes ten minutes and more on two cores.
# They are kept beneath the user's cache, and nothing is left anywhere else but in Go's own caches.
set -euo pipefail

gitea=v1.26.4
runner=v1.0.8

command -v go >/dev/null || { echo 'gitea.sh: Go 1.26 or newer is needed: https://go.dev/dl/' >&2; exit 1; }
here=${XDG_CACHE_HOME:-$HOME/.cache}/prewarm/gitea-$gitea-runner-$runner
mkdir -p "$here"
export CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false

# The server replaces modules, so `go install` refuses it: it is built where its module lies. Without bindata it reads its
# templates from there as well; what only its own pages need (public/assets) is not in a module, and not built.
if [ ! -x "$here/gitea" ] || [ ! -e "$here/gitea-root/templates" ]; then
	echo "gitea.sh: building Gitea $gitea, once" >&2
	module=$(go mod download -json "code.gitea.io/gitea@$gitea" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
	(cd "$module" && go build -mod=readonly -trimpath -ldflags "-s -w -X main.Version=${gitea#v}" -o "$here/gitea.new" .)
	ln -sfn "$module" "$here/gitea-root"
	mv "$here/gitea.new" "$here/gitea"
fi
if [ ! -x "$here/gitea-runner" ]; then
	echo "gitea.sh: building Gitea's runner $runner, once" >&2
	module=$(go mod download -json "gitea.com/gitea/runner@$runner" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
	(cd "$module" && go build -mod=readonly -trimpath -ldflags '-s -w' -o "$here/gitea-runner.new" .)
	mv "$here/gitea-runner.new" "$here/gitea-runner"
fi
echo "$here"
