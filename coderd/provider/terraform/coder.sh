#!/bin/sh
# Starts the agent of a Prewarm workspace: the init_script of a coder_agent. The container or the machine that a template of Coder makes
# runs it, with the token in CODER_AGENT_TOKEN, each time that it starts. There is no single quote in it, since templates put it between
# such.
set -eu
mask=$(umask)
umask 077
server="${ACCESS_URL}"
server=${server%/}
token=${CODER_AGENT_TOKEN:-}
unset CODER_AGENT_TOKEN

if [ -z "$token" ] || [ "$token" = none ]; then
	echo "prewarm: there is no token in CODER_AGENT_TOKEN: have the template of Prewarm say agent: {}, and the directory hand over coder_agent.NAME.token" >&2
	exit 1
fi
dir=${HOME:-/tmp}/.prewarm-agent
mkdir -p "$dir" 2> /dev/null || dir=$(mktemp -d)
cd "$dir"

# The agent writes a renewed token over the first one. It stays for as long as the first one is the same.
if [ ! -e token ] || [ "$(cat first 2> /dev/null)" != "$token" ]; then
	printf %s "$token" > token
	printf %s "$token" > first
fi

# What is trusted by the download: the authorities of the system, and those of the server, if it has its own.
rm -f authorities trusted
cat > authorities <<"END_OF_AUTHORITIES"
{{AUTHORITIES}}END_OF_AUTHORITIES
if [ -s authorities ]; then
	for system in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
		if [ -r "$system" ]; then
			cat "$system" > trusted
			echo >> trusted
			break
		fi
	done
	cat authorities >> trusted
else
	rm -f authorities
fi

# Curl and the wget of GNU take the token from a file. That of BusyBox takes arguments only.
token=$(cat token)
{
	echo "header = \"Authorization: Bearer $token\""
	if [ -e trusted ]; then echo "cacert = \"$dir/trusted\""; fi
} > curl.conf
{
	echo "header = Authorization: Bearer $token"
	if [ -e trusted ]; then echo "ca_certificate = $dir/trusted"; fi
} > wget.conf

fetch() { # URL FILE
	if command -v curl > /dev/null; then
		curl --config curl.conf --fail --silent --show-error --location --output "$2" "$1"
	elif wget --version 2> /dev/null | grep -q GNU; then
		wget --config=wget.conf --quiet --output-document="$2" "$1"
	else
		wget -q --header "Authorization: Bearer $token" -O "$2" "$1"
	fi
}

# Has the server know why there will be no agent, where it can be reached.
fail() {
	echo "prewarm: $1" >&2
	printf "{\"status\": \"failed\", \"message\": \"%s\"}" "$1" > report.json
	if command -v curl > /dev/null; then
		curl --config curl.conf --silent --header "Content-Type: application/json" --data @report.json "$server/api/v1/instance/status" || true
	fi
	rm -f report.json curl.conf wget.conf
	exit 1
}

# An image may have the agent. Else it comes from the server, once; the network may take its time to come up.
if command -v prewarm > /dev/null; then
	binary=$(command -v prewarm)
else
	if ! command -v curl > /dev/null && ! command -v wget > /dev/null; then
		echo "prewarm: neither curl nor wget is in this image: add one, or the program prewarm" >&2
		exit 1
	fi
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	armv6l | armv7l) arch=arm ;;
	*) fail "no agent is known for the machine $(uname -m)" ;;
	esac
	binary="$dir/prewarm"
	tries=0
	until [ -x prewarm ] || { fetch "$server/api/v1/instance/agent?os=linux&arch=$arch" prewarm.new && chmod 0700 prewarm.new &&
		mv prewarm.new prewarm; }; do
		tries=$((tries + 1))
		if [ "$tries" -ge 30 ]; then fail "the agent for linux and $arch could not be downloaded from $server"; fi
		sleep 2
	done
fi
rm -f curl.conf wget.conf trusted
token=

export PREWARM_AGENT_URL="$server" PREWARM_AGENT_TOKEN_FILE="$dir/token" PREWARM_AGENT_DIR="${HOME:-/tmp}/.prewarm"
if [ -e authorities ]; then export PREWARM_AGENT_CA_FILE="$dir/authorities"; fi
umask "$mask"
cd "${HOME:-/tmp}"
exec "$binary" agent
