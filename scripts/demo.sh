#!/usr/bin/env bash
# Trains a tiny Transformer to translate spelled-out numbers, dates, times and prices from English to German, and
# translates unseen ones with it. At most 5 minutes on two CPU cores, installation included.
#   scripts/demo.sh [RUN]       RUN: where to train (default: runs/demo); an existing run there is resumed
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/venv.sh
use_venv
run=${1:-runs/demo}

echo "== Training: t2t-trainer --problem=spelled_numbers_ende --hparams=tiny"
t2t-trainer --problem=spelled_numbers_ende --hparams=tiny --output_dir="$run"

echo "== Unseen inputs: t2t-eval --split=test"
t2t-eval --output_dir="$run" --split=test

echo "== Translating: t2t-decoder"
printf '%s\n' "four hundred seventeen" "the twenty-third of october" "a quarter past nine" |
    t2t-decoder --output_dir="$run" --input=-
