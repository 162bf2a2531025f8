#!/bin/sh
# Installs the agent of a Prewarm workspace and starts it. It is a template with the variables of GARM's
# runner_install_template, and is run once, at the first boot, as any user with a home.
#
# The token is in files that only this user can read, and never in an argument or in the environment of a process.
set -eu
umask 077

dir="$HOME/.prewarm-agent"
mkdir -p "$dir"
cd "$dir"
callback='{{ .CallbackURL }}'
server=${callback%/api/v1/*}

cat > token <<'END_OF_TOKEN'
{{ .CallbackToken }}
END_OF_TOKEN
IFS= read -r token < token

as_root=
if [ "$(id -u)" != 0 ]; then as_root='sudo -n'; fi

# What is trusted by the download: the authorities of the system, and those of the bundle, if there are any: the server's own,
# and of a runner those of its forge.
rm -f authorities trusted
{{- if .CABundle }}
cat > authorities <<'END_OF_AUTHORITIES'
{{ .CABundle }}
END_OF_AUTHORITIES
for system in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
	if [ -r "$system" ]; then
		cat "$system" > trusted
		echo >> trusted
		break
	fi
done
cat authorities >> trusted

# The system trusts them as well, before anything talks to the forge. Each has a file of its own: tools read one from each.
trust() {
	PATH=$PATH:/usr/sbin:/sbin
	if command -v update-ca-certificates > /dev/null; then # Debian, Ubuntu, Alpine; SUSE
		update=update-ca-certificates store=/usr/local/share/ca-certificates
		if [ -d /etc/pki/trust/anchors ]; then store=/etc/pki/trust/anchors; fi
	elif command -v update-ca-trust > /dev/null; then # RHEL, Fedora; Arch
		update=update-ca-trust store=/etc/pki/ca-trust/source/anchors
		if [ -d /etc/ca-certificates/trust-source/anchors ]; then store=/etc/ca-certificates/trust-source/anchors; fi
	else
		echo 'prewarm: this image has no trust store: its programs do not trust the authorities of the bundle' >&2
		return
	fi
	rm -rf anchors
	mkdir anchors
	n=0 anchor=
	while IFS= read -r line; do
		case $line in *'-----BEGIN CERTIFICATE-----'*) n=$((n + 1)) anchor=anchors/prewarm-$n.crt ;; esac
		if [ -n "$anchor" ]; then printf '%s\n' "$line" >> "$anchor"; fi
		case $line in *'-----END CERTIFICATE-----'*) anchor= ;; esac
	done < authorities
	umask 022
	if ! $as_root mkdir -p "$store" || ! $as_root cp anchors/prewarm-*.crt "$store" ||
		! $as_root chmod 0644 "$store"/prewarm-*.crt || ! $as_root "$update" > /dev/null; then
		echo "prewarm: the authorities of the bundle could not be put into $store: run this as root, or with sudo" >&2
	fi
}
if [ "${PREWARM_AGENT_TRUST:-yes}" = yes ]; then (trust); fi
{{- end }}

# Both tools take the token from a file.
{
	echo "header = \"Authorization: Bearer $token\""
	if [ -e trusted ]; then echo "cacert = \"$dir/trusted\""; fi
} > curl.conf
{
	echo "header = Authorization: Bearer $token"
	if [ -e trusted ]; then echo "ca_certificate = $dir/trusted"; fi
} > wget.conf
token=

fetch() { # URL FILE
	if command -v curl > /dev/null; then
		curl --config curl.conf --fail --silent --show-error --location --output "$2" "$1"
	else
		wget --config=wget.conf --quiet --output-document="$2" "$1"
	fi
}

# Tells the server why there will be no agent, if that can be told.
fail() {
	echo "prewarm: $1" >&2
	printf '{"status": "failed", "message": "%s"}' "$1" > report.json
	if command -v curl > /dev/null; then
		curl --config curl.conf --silent --header 'Content-Type: application/json' --data @report.json "$callback" || true
	else
		wget --config=wget.conf --quiet --header 'Content-Type: application/json' --post-file=report.json \
			--output-document=- "$callback" || true
	fi
	rm -f report.json curl.conf wget.conf
	exit 1
}

if ! command -v curl > /dev/null && ! command -v wget > /dev/null; then
	echo 'prewarm: neither curl nor wget is in this image: install one, or the agent with the image' >&2
	exit 1
fi
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
armv6l | armv7l) arch=arm ;;
i?86) arch=386 ;;
*) fail "no agent is known for the machine $(uname -m)" ;;
esac

# An image may have it already. Else it comes from the server; the network may take its time to come up.
if command -v prewarm > /dev/null; then
	binary=$(command -v prewarm)
else
	binary="$dir/prewarm"
	tries=0
	until fetch "$server/api/v1/instance/agent?os=linux&arch=$arch" prewarm.new; do
		tries=$((tries + 1))
		if [ "$tries" -ge 30 ]; then fail "the agent for linux and $arch could not be downloaded from $server"; fi
		sleep 2
	done
	chmod 0700 prewarm.new
	mv prewarm.new prewarm
fi
rm -f curl.conf wget.conf trusted

{
	echo "PREWARM_AGENT_URL=$server"
	echo "PREWARM_AGENT_TOKEN_FILE=$dir/token"
	echo "PREWARM_AGENT_DIR=$HOME/.prewarm"
	if [ -e authorities ]; then echo "PREWARM_AGENT_CA_FILE=$dir/authorities"; fi
} > environment

# With systemd it is a service (unless PREWARM_AGENT_SERVICE says no), which a workspace that is stopped and started has again. Otherwise it runs by itself.
if [ "${PREWARM_AGENT_SERVICE:-yes}" = yes ] && [ -d /run/systemd/system ] && $as_root true 2> /dev/null; then
	$as_root tee /etc/systemd/system/prewarm-agent.service > /dev/null <<END_OF_UNIT
[Unit]
Description=Agent of a Prewarm workspace
Wants=network-online.target
After=network-online.target

[Service]
User=$(id -un)
WorkingDirectory=$HOME
EnvironmentFile=$dir/environment
ExecStart=$binary agent
Restart=always
RestartSec=2

[Install]
WantedBy=multi-user.target
END_OF_UNIT
	$as_root chmod 0644 /etc/systemd/system/prewarm-agent.service
	$as_root systemctl daemon-reload
	$as_root systemctl enable --now prewarm-agent.service
else
	set -a
	. ./environment
	set +a
	cd "$HOME"
	nohup "$binary" agent > "$dir/log" 2>&1 < /dev/null &
fi
