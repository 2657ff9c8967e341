#!/usr/bin/env bash
# Trains a tiny Transformer to translate spelled-out numbers, dates, times and prices from English to German, and
# translates unseen ones with it. 2 minutes on two fast CPU cores, installation included, at most 8 on slow ones.
#   scripts/demo.sh [RUN]       RUN: where to train (default: runs/demo); an existing run there is resumed
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/venv.sh
use_venv
run=${1:-runs/demo}

echo "== Training: t2t-trainer --problem=spelled_numbers_ende --hparams=tiny"
t2t-trainer --problem=spelled_numbers_ende --hparams=tiny --output_dir="$run"

echo "== Measuring on 1,000 unseen inputs: t2t-eval --split=test"
t2t-eval --output_dir="$run" --split=test

echo "== Some of them: t2t-decoder"
python - "$run" > "$run/unseen.en" <<'PYTHON'
import sys
from t2t_lite.run import Run

pairs = list(Run.open(sys.argv[1]).problem.source("test").pairs())
print("\n".join(line for line, _ in pairs[::100]))
PYTHON
t2t-decoder --output_dir="$run" --input="$run/unseen.en" --output="$run/unseen.de"
paste "$run/unseen.en" "$run/unseen.de" | sed 's/\t/  ->  /'
