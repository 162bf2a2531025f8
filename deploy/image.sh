#!/bin/sh
# Builds the image prewarm:local of bin/prewarm. Any builder of Dockerfiles will do: ENGINE=podman takes another.
set -eu
cd "$(dirname "$0")/.."

engine=${ENGINE:-docker}
parts=build/image
certificates=${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}

[ -x bin/prewarm ] || { echo 'image.sh: bin/prewarm is not there: run make build' >&2; exit 1; }
[ -r "$certificates" ] || { echo "image.sh: no authorities at $certificates: install ca-certificates, or set CERTIFICATES" >&2; exit 1; }
rm -rf "$parts"
mkdir -p "$parts/data"
touch "$parts/data/.keep" # an empty folder is not copied by every builder
cp bin/prewarm "$parts/prewarm"
cp "$certificates" "$parts/ca-certificates.crt"
exec "$engine" build -t "${IMAGE:-prewarm:local}" -f deploy/Dockerfile "$parts"
