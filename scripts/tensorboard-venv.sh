#!/usr/bin/env bash
# Makes .venv-tensorboard, by which a test reads what `train --log` writes with TensorBoard itself. Quick where it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-tensorboard
if "$venv/bin/python" -c 'import tensorboard' 2> /dev/null; then exit 0; fi
if ! python3 -c 'import ensurepip, venv' 2> /dev/null; then scripts/setup.sh bench; fi
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check tensorboard
