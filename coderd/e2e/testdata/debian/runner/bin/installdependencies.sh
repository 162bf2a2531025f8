#!/bin/sh
set -e
[ "$(id -u)" = 0 ]
