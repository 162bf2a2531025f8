#!/bin/sh
# The service: it connects by the files of a just-in-time configuration, or by what config.sh has left.
set -e
cd "$(dirname "$0")"
if [ -e .settings ]; then
	. ./.settings
	export PREWARM_RUNNER_TOKEN_FILE=.token
else
	export PREWARM_RUNNER_HOME=.
fi
exec bin/runner
