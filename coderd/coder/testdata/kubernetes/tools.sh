#!/usr/bin/env bash
set -euo pipefail
command -v git || true
