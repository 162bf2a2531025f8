#!/bin/sh
# The one command of examples/docker.yaml: makes its image of what this machine has, so that no registry is needed, starts
# a server, and applies the file. Ctrl-C ends the server; the containers stay, as they should.
#
#   examples/docker.sh              with the engine of this machine
#   examples/docker.sh --image      only makes the image
#   ARGS='--listen :8080'           more arguments for the server
set -eu
cd "$(dirname "$0")/.."

image=prewarm.example/hello:1
DOCKER_HOST=${DOCKER_HOST:-unix:///var/run/docker.sock}
export DOCKER_HOST

if ! docker version >/dev/null 2>&1; then
	cat >&2 <<-MESSAGE
	docker.sh: no container engine answers at $DOCKER_HOST. Start one (systemctl start docker, or dockerd as root), or let
	DOCKER_HOST say where one listens.
	MESSAGE
	exit 1
fi
if ! docker image inspect "$image" >/dev/null 2>&1; then
	# A file system of busybox, or of a shell and sleep with the libraries that they need.
	root=$(mktemp -d)
	mkdir -p "$root/bin" "$root/tmp" "$root/etc"
	chmod 1777 "$root/tmp"
	echo 'root:x:0:0::/:/bin/sh' >"$root/etc/passwd"
	for program in sh sleep cat ls env; do
		path=$(command -v "$program")
		cp -L "$path" "$root/bin/$program"
		ldd "$path" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
			mkdir -p "$root$(dirname "$library")"
			cp -L "$library" "$root$library"
		done
	done
	tar -C "$root" -c . | docker import --change 'CMD ["sh"]' - "$image" >/dev/null
	rm -rf "$root"
	echo "docker.sh: made $image" >&2
fi
[ "${1:-}" != --image ] || exit 0

# The server is up when its address is in the file that the command line reads.
data=${PREWARM_DATA_DIR:-$PWD/build/example-docker}
bin/prewarm server --data-dir "$data" ${ARGS:-} &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
until PREWARM_DATA_DIR=$data bin/prewarm whoami >/dev/null 2>&1; do
	kill -0 $server 2>/dev/null || exit 1
	sleep 0.2
done
PREWARM_DATA_DIR=$data bin/prewarm apply -f examples/docker.yaml
echo 'docker.sh: now try: bin/prewarm claim containers/default --exec -- sh' >&2
wait $server
