#!/usr/bin/env bash
# Makes a virtual environment in the checkout, installs the project and runs its tests.
#   scripts/test.sh [PYTEST ARGUMENTS]     e.g. scripts/test.sh tests/layers -k attention
#   scripts/test.sh -m thorough            those that take long; -m "not slow" runs both, as .ci/run does
#   PYTHON=python3.13 VENV=.venv313 scripts/test.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/venv.sh
use_venv test
exec python -m pytest --durations=10 "$@"
