#!/usr/bin/env bash
# Makes a virtual environment in the checkout, installs the project and runs its tests.
#   scripts/test.sh [PYTEST ARGUMENTS]     e.g. scripts/test.sh tests/layers -k attention
#   scripts/test.sh -m thorough            those that take long; -m "not slow" runs both, as .ci/run does
#   scripts/test.sh -n 0 FILE        in one process, to see what a test prints or to stop in it
#   PYTHON=python3.13 VENV=.venv313 scripts/test.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/venv.sh
use_venv test
# The tests of a file share a process, and with it what they have made. 4: each takes some 4 GiB.
# In the files' order, since otherwise those with few tests, of which some take long, come last.
exec python -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder \
    --durations=10 "$@"
