#!/usr/bin/env bash
# Makes what a release consists of, in build/release: an archive for each platform, with the binary and the licence, the
# lists of what the binaries and the pages are made of (SBOM, CycloneDX JSON), and SHA256SUMS of all of it. The argument is
# the version. Linux gets all of Prewarm, macOS the client commands. The same commit gives the same files to the byte.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?the version, such as 0.2.0}
out=build/release
if [ -n "$(git status --porcelain --untracked-files=normal)" ]; then
	echo "release.sh: the tree has changes that no commit has: commit or remove them, since a release is made of a commit" >&2
	git status --short >&2
	exit 1
fi
if [ ! -f site/dist/index.html ]; then
	echo "release.sh: site/dist/index.html is missing, and binaries would have no pages: run \`make release\`, which builds them" >&2
	exit 1
fi
if ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(+a > 20 || (+a === 20 && +b >= 19) ? 0 : 1)'; then
	echo "release.sh: Node 20.19 or newer is needed: https://nodejs.org" >&2
	exit 1
fi
when=$(git log -1 --format=%cI) # what archives say of the time of their files
rm -rf "$out"
mkdir -p "$out"

for platform in linux/amd64 linux/arm64 darwin/arm64; do
	name=prewarm_${version}_${platform/\//_}
	echo "release.sh: building $name" >&2
	mkdir "$out/$name"
	CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} go build -trimpath -buildvcs=false \
		-ldflags "-s -w -X main.release=$version" -o "$out/$name/prewarm" ./cmd/prewarm
	cp LICENSE CHANGELOG.md "$out/$name"
	# Of the binary itself: what is linked into it, and nothing else.
	go tool -modfile=scripts/release/go.mod cyclonedx-gomod bin -json -noserial -notimestamp -version "$version" \
		-output "$out/$name.cdx.json" "$out/$name/prewarm" 2>/dev/null
	tar --sort=name --mtime="$when" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$out" -cf - "$name" |
		gzip -9n >"$out/$name.tar.gz"
	rm -r "${out:?}/$name"
done

# npm numbers and dates its list anew each time.
(cd site && npm sbom --sbom-format cyclonedx --package-lock-only --omit dev 2>/dev/null) |
	node -e '
		const list = JSON.parse(require("fs").readFileSync(0, "utf8"));
		delete list.serialNumber;
		delete list.metadata.timestamp;
		console.log(JSON.stringify(list, null, 2));
	' >"$out/prewarm_${version}_pages.cdx.json"

(cd "$out" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
