#!/bin/sh
# The one command of examples/docker.yaml: makes its image from the programs of this machine, so that no registry is
# needed, starts a server, applies the file, and waits until its pool is warm. Ctrl-C stops the server; the containers stay.
#
#   examples/docker.sh                  with the engine of this machine
#   examples/docker.sh --listen :8080   more arguments for the server; ARGS='--listen :8080' does the same
#   examples/docker.sh --image          only makes the image
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
	tar -C "$root" -c . | docker import --change 'CMD ["sleep", "infinity"]' - "$image" >/dev/null
	rm -rf "$root"
	echo "docker.sh: made $image" >&2
fi
[ "${1:-}" != --image ] || exit 0

# The server is up when its address is in the data directory, where the command line reads it. A server that somebody has
# logged in to must not be used instead.
prewarm=${PREWARM_BINARY:-bin/prewarm}
PREWARM_DATA_DIR=${PREWARM_DATA_DIR:-$PWD/build/example-docker}
export PREWARM_DATA_DIR
unset PREWARM_URL PREWARM_TOKEN PREWARM_TOKEN_FILE PREWARM_ORGANIZATION
# shellcheck disable=SC2086 # ARGS are several words
"$prewarm" server --data-dir "$PREWARM_DATA_DIR" ${ARGS:-} "$@" &
server=$!
trap 'kill $server 2>/dev/null && wait $server || true' EXIT
trap 'exit 130' INT TERM

# wait_for WHAT SECONDS COMMAND... tries the command until it succeeds, the server ends or the time is up.
wait_for() {
	what=$1 limit=$2
	shift 2
	echo "docker.sh: waiting for $what, at most $limit s" >&2
	end=$(($(date +%s) + limit))
	until "$@" >/dev/null 2>&1; do
		if ! kill -0 $server 2>/dev/null; then
			echo 'docker.sh: the server has ended; its last lines above say why' >&2
			exit 1
		fi
		if [ "$(date +%s)" -ge $end ]; then
			echo "docker.sh: no $what within $limit s. This is what the command says:" >&2
			"$@" >&2 || true
			exit 1
		fi
		sleep 0.2
	done
}
answers() { [ -s "$PREWARM_DATA_DIR/server-url" ] && "$prewarm" whoami; }
warm() {
	"$prewarm" preset explain containers/default
	"$prewarm" preset show containers/default -o json | grep -q '"eligible": 2'
}

wait_for 'the server' 60 answers
"$prewarm" apply -f examples/docker.yaml
wait_for 'two ready containers' 120 warm
echo 'docker.sh: now try, in another terminal:' >&2
echo "docker.sh:   PREWARM_DATA_DIR=$PREWARM_DATA_DIR $prewarm claim containers/default --exec -- sh" >&2
wait $server
