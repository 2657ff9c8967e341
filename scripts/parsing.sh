#!/usr/bin/env bash
# The README's figures of parsing: trains on real treebanks and prints F1 on test, with the grammar in the search and without.
#   scripts/parsing.sh DATA [RUN ...]     DATA: a folder with genia/{train,dev,test}.trees.gz, wsj_sample/wsj_*.mrg (the sample of
#                                         the Penn Treebank that NLTK has) and silver/*.trees.gz
# RUN is one of the names below (default: all). RUN_DIR: where (runs/parsing).
set -euo pipefail
data=$(realpath "${1:?usage: scripts/parsing.sh DATA [RUN ...]}")
shift
cd "$(dirname "$0")/.."
source scripts/venv.sh
use_venv
RUN_DIR=${RUN_DIR:-runs/parsing}

genia="--train $data/genia/train.trees.gz --dev $data/genia/dev.trees.gz --test $data/genia/test.trees.gz"
wsj="--train $(echo "$data"/wsj_sample/wsj_00*.mrg "$data"/wsj_sample/wsj_01[0-5]*.mrg)"
wsj="$wsj --dev $(echo "$data"/wsj_sample/wsj_01[67]*.mrg) --test $(echo "$data"/wsj_sample/wsj_01[89]*.mrg)"
declare -A flags=(
    [genia]="$genia --tags=initials"
    [genia-tags-kept]="$genia --tags=kept"
    [genia-long]="$genia --tags=initials --set=train_steps=32000 --set=dropout=0.2"
    [wsj-sample]="$wsj --tags=initials --set=train_steps=4000 --set=dropout=0.2"
    [wsj-sample-silver]="$wsj --tags=initials --set=train_steps=8000 --set=dropout=0.2 --silver $(echo "$data"/silver/*.trees.gz) --silver_per_gold=3"
)
runs=("$@")
[ ${#runs[@]} -gt 0 ] || runs=(genia genia-tags-kept genia-long wsj-sample wsj-sample-silver)

for name in "${runs[@]}"; do
    [ -n "${flags[$name]:-}" ] || { echo "unknown run $name; expected one of: ${!flags[*]}" >&2; exit 2; }
    # shellcheck disable=SC2086  # the flags are several words
    t2t-trainer --problem=treebank --hparams=parsing_small --precision=bfloat16 ${flags[$name]} --output_dir="$RUN_DIR/$name"
    echo "$name, test: $(t2t-eval --output_dir="$RUN_DIR/$name" --split=test --json)"
    echo "$name, test, without the grammar: $(t2t-eval --output_dir="$RUN_DIR/$name" --split=test --json --unconstrained)"
done
