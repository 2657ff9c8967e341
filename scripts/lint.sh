#!/usr/bin/env bash
# Checks how the code is written and laid out: ruff's lint and format, as pyproject.toml sets them.
#   scripts/lint.sh [FILES]     default: all. To put right what can be: ruff check --fix; ruff format
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/venv.sh
use_venv test
ruff check "${@:-.}"
ruff format --check "${@:-.}"
