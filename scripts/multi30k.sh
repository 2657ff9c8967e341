#!/usr/bin/env bash
# The figures of docs/results.md on Multi30k: trains `small` and prints the BLEU of test_2016_flickr, one line a run.
#   scripts/multi30k.sh RAW_DIR [RUN ...]     RAW_DIR: a folder with train.en.gz, train.de.gz, ... of multi30k/dataset
# RUN is one of the names below (default: all); each takes half an hour to an hour on two CPU cores. RUN_DIR: where (runs/multi30k).
set -euo pipefail
raw_dir=$(realpath "${1:?usage: scripts/multi30k.sh RAW_DIR [RUN ...]}")
shift
cd "$(dirname "$0")/.."
source scripts/venv.sh
use_venv
RUN_DIR=${RUN_DIR:-runs/multi30k}

declare -A flags=(
    [ende-1]="--problem=multi30k_ende --seed=1"
    [ende-2]="--problem=multi30k_ende --seed=2"
    [ende-bfloat16]="--problem=multi30k_ende --seed=1 --precision=bfloat16"
    [enfr-1]="--problem=multi30k_enfr --seed=1 --precision=bfloat16"
    [ende-long]="--problem=multi30k_ende --seed=1 --precision=bfloat16 --set=train_steps=6240 --set=dropout=0.25"
)
runs=("$@")
[ ${#runs[@]} -gt 0 ] || runs=(ende-1 ende-2 ende-bfloat16 enfr-1 ende-long)

for name in "${runs[@]}"; do
    [ -n "${flags[$name]:-}" ] || { echo "unknown run $name; expected one of: ${!flags[*]}" >&2; exit 2; }
    run=$RUN_DIR/$name target=${name:2:2}
    # shellcheck disable=SC2086  # the flags are several words
    t2t-trainer ${flags[$name]} --hparams=small --raw_dir="$raw_dir" --output_dir="$run"
    zcat -f "$raw_dir"/test_2016_flickr.en* > "$run/test.en"
    zcat -f "$raw_dir/test_2016_flickr.$target"* > "$run/test.$target"
    t2t-decoder --output_dir="$run" --input="$run/test.en" --output="$run/test.out"
    echo "$name: $(t2t-bleu --translation="$run/test.out" --reference="$run/test.$target" | head -1)"
done
