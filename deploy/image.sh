#!/bin/sh
# Builds the image prewarm:local of bin/prewarm, for this machine. Any builder of Dockerfiles will do: ENGINE=podman takes
# another. Nothing runs while it builds, so other platforms need no emulation:
#
#   PLATFORM=linux/arm64 BINARY=build/prewarm-arm64 IMAGE=registry.example.com/prewarm:0.2.0-arm64 deploy/image.sh
set -eu
cd "$(dirname "$0")/.."

engine=${ENGINE:-docker}
binary=${BINARY:-bin/prewarm}
parts=build/image
certificates=${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}

[ -x "$binary" ] || { echo "image.sh: $binary is not there: run make build" >&2; exit 1; }
[ -r "$certificates" ] || { echo "image.sh: no authorities at $certificates: install ca-certificates, or set CERTIFICATES" >&2; exit 1; }
rm -rf "$parts"
mkdir -p "$parts/data"
touch "$parts/data/.keep" # an empty folder is not copied by every builder
cp "$binary" "$parts/prewarm"
cp "$certificates" "$parts/ca-certificates.crt"
exec "$engine" build ${PLATFORM:+--no-cache --platform "$PLATFORM"} -t "${IMAGE:-prewarm:local}" -f deploy/Dockerfile "$parts"
