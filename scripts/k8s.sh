#!/usr/bin/env bash
# Makes sure that there are the parts of a real Kubernetes cluster of the version below, for `make k8s-e2e`, and prints the
# folder of those that are built: kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl and kwok. Says nothing
# else if they are there. Otherwise it builds them from their Go modules (k8s/go.mod, kwok/go.mod), which takes 20 minutes on two idle
# cores and 6 GB while it lasts. They are kept beneath the user's cache. What comes from the distribution (etcd, containerd
# with runc, network plugins, busybox) is installed as root with apt-get; nothing of it is started.
#
#   JOBS=1  how many packages to build at once; default: as many as there are cores
#   --look  only says what of the above is missing, for who runs other tests
set -euo pipefail

version=v1.37.2 # k8s/go.mod has the same

cd "$(dirname "$0")/k8s"
PATH=$PATH:/usr/sbin:/usr/local/sbin
here=${XDG_CACHE_HOME:-$HOME/.cache}/prewarm/kubernetes-$version
commands='etcd containerd runc ctr busybox'
parts='kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl kwok'
kwok=v0.8.0 # kwok/go.mod has the same

missing() {
	for command in $commands; do
		command -v "$command" >/dev/null || echo "$command"
	done
	[ -x /usr/lib/cni/bridge ] || [ -x /opt/cni/bin/bridge ] || echo bridge
}

if [ "${1:-}" = --look ]; then
	for part in $parts; do
		if [ ! -x "$here/$part" ] || [ -n "$(missing)" ]; then
			echo 'The tests on a real Kubernetes are left out: they need `make k8s-binaries` once, and then `make k8s-e2e` runs them.' >&2
			break
		fi
	done
	exit
fi
if [ -n "$(missing)" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "k8s.sh: installing $(missing | tr '\n' ' ')with apt-get" >&2
	# apt works as another user, for whom our TMPDIR may be out of reach.
	tmp=$(mktemp -d /tmp/prewarm-apt.XXXXXX)
	chmod 1777 "$tmp"
	# What a package would start, it asks this for first.
	policy=/usr/sbin/policy-rc.d
	trap 'rm -rf "$tmp"' EXIT
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		trap 'rm -rf "$tmp" "$policy"' EXIT
	fi
	{ TMPDIR=$tmp apt-get update -q && TMPDIR=$tmp DEBIAN_FRONTEND=noninteractive apt-get install -qy \
		--no-install-recommends etcd-server containerd runc containernetworking-plugins busybox-static; } >&2 || true
fi
if [ -n "$(missing)" ]; then
	echo "k8s.sh: a cluster needs $(missing | tr '\n' ' ')too. Install them as root with apt-get install etcd-server
containerd runc containernetworking-plugins busybox-static, or with another distribution's packages." >&2
	exit 1
fi

command -v go >/dev/null || { echo 'k8s.sh: Go 1.26 or newer is needed: https://go.dev/dl/' >&2; exit 1; }
mkdir -p "$here"
exec 9>"$here/lock"
flock 9
# A cache of its own, so that it goes away again: it is bigger than all else that Go keeps for this repository.
export CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false GOCACHE=$here/go-build
stamp=k8s.io/component-base/version
for part in $parts; do
	if [ ! -x "$here/$part" ]; then
		echo "k8s.sh: building $part $version, once" >&2
		module=. package=k8s.io/kubernetes/cmd/$part stamps="-X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=37"
		if [ "$part" = kwok ]; then
			module=../kwok package=sigs.k8s.io/kwok/cmd/kwok stamps="-X sigs.k8s.io/kwok/pkg/consts.Version=$kwok"
		fi
		(cd $module && go build -mod=readonly -trimpath -p "${JOBS:-$(nproc)}" -o "$here/$part.new" -ldflags "-s -w $stamps" "$package")
		mv "$here/$part.new" "$here/$part"
	fi
done
rm -rf "$GOCACHE"
echo "$here"
