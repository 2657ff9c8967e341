#!/usr/bin/env bash
# Makes a virtual environment in the checkout, installs the project and runs its tests.
#   scripts/test.sh [PYTEST ARGUMENTS]     e.g. scripts/test.sh tests/layers -k attention
#   PYTHON=python3.13 VENV=.venv313 scripts/test.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/venv.sh
use_venv test
exec python -m pytest "$@"
