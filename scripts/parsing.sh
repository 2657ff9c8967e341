#!/usr/bin/env bash
# The figures of docs/results.md of parsing: trains on real treebanks and prints F1 on test, with the grammar in the search and without.
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
wsj="$wsj --dev $(echo "$data"/wsj_sample/wsj_01[67]*.mrg) --test $(echo "$data"/wsj_sample/wsj_01[89]*.mrg) --set=dropout=0.3"
declare -A flags=(
    [genia]="$genia"
    [genia-normalised]="$genia --tags=normalised"
    [genia-counted]="$genia --set=next_word=counted"
    [genia-long]="$genia --set=train_steps=26000 --set=dropout=0.25"
    [wsj-sample]="$wsj --set=train_steps=1500 --set=checkpoint_steps=60"
    [wsj-sample-silver]="$wsj --set=train_steps=2500 --set=checkpoint_steps=60 --silver $(echo "$data"/silver/*.trees.gz) --silver_per_gold=3"
)
runs=("$@")
[ ${#runs[@]} -gt 0 ] || runs=(genia genia-normalised genia-counted genia-long wsj-sample wsj-sample-silver)

for name in "${runs[@]}"; do
    [ -n "${flags[$name]:-}" ] || { echo "unknown run $name; expected one of: ${!flags[*]}" >&2; exit 2; }
    # shellcheck disable=SC2086  # the flags are several words
    t2t-trainer --problem=treebank --hparams=parsing_small --precision=bfloat16 ${flags[$name]} --output_dir="$RUN_DIR/$name"
    echo "$name, test: $(t2t-eval --output_dir="$RUN_DIR/$name" --split=test --json)"
    echo "$name, test, without the grammar: $(t2t-eval --output_dir="$RUN_DIR/$name" --split=test --json --unconstrained)"
    [[ $name == genia* ]] || continue
    # The trees of GENIA's dev and test stand within one S more than those that it trains on, which no parser can know.
    zcat "$data/genia/test.trees.gz" | sed -E 's/^\(S1 \(S (.*)\)\)$/(TOP \1)/' > "$RUN_DIR/test.trees"
    sed -E 's/\([^ ()]+ //g; s/\)//g' "$RUN_DIR/test.trees" > "$RUN_DIR/test.txt"
    echo "$name, test without that S: $(t2t-eval --output_dir="$RUN_DIR/$name" --input="$RUN_DIR/test.txt" --reference="$RUN_DIR/test.trees" --json)"
done
