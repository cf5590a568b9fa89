#!/usr/bin/env bash
# Makes .venv with the frameworks that bench/compare.py compares with. Quick where it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv/requirements.installed
if cmp -s bench/requirements.txt "$stamp"; then exit 0; fi
if ! python3 -c 'import ensurepip, venv' 2> /dev/null; then scripts/setup.sh bench; fi
# Packages of the system stay visible, so that a PyTorch that is installed there takes part.
python3 -m venv --system-site-packages .venv
.venv/bin/pip install --quiet --disable-pip-version-check -r bench/requirements.txt
cp bench/requirements.txt "$stamp"
