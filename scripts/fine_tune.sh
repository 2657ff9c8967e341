#!/usr/bin/env bash
# Tunes a run of scripts/multi30k.sh (English-German) to 1,000 pairs of everyday sentences, and prints the dev figures of both corpora
# before and after, as docs/results.md has them; then the same with 1,000 pairs of the run's own corpus among them.
#   scripts/fine_tune.sh RUN DATA RAW_DIR     DATA: a folder with train.en.gz, train.de.gz, dev.en.gz, dev.de.gz of Tatoeba;
#                                             RAW_DIR: that of scripts/multi30k.sh. Some minutes on two CPU cores.
# RUN_DIR: where (runs/fine_tune).
set -euo pipefail
usage="usage: scripts/fine_tune.sh RUN DATA RAW_DIR"
run=$(realpath "${1:?$usage}") data=$(realpath "${2:?$usage}") raw_dir=$(realpath "${3:?$usage}")
cd "$(dirname "$0")/.."
source scripts/venv.sh
use_venv
RUN_DIR=${RUN_DIR:-runs/fine_tune}
mkdir -p "$RUN_DIR"

sample() {    # FOLDER NAME: 1,000 pairs of its training data, evenly spread, as NAME.en and NAME.de
    local language lines
    lines=$(zcat -f "$1"/train.en* | wc -l)
    for language in en de; do
        zcat -f "$1"/train.$language* | awk -v each=$((lines / 1000)) 'NR % each == 1 && n++ < 1000' > "$RUN_DIR/$2.$language"
    done
}

measure() {    # NAME RUN: the figures of both dev sets
    t2t-eval --output_dir="$2" --input="$raw_dir/val.en.gz" --reference="$raw_dir/val.de.gz" > "$RUN_DIR/$1.multi30k"
    t2t-eval --output_dir="$2" --input="$data/dev.en.gz" --reference="$data/dev.de.gz" > "$RUN_DIR/$1.tatoeba"
    for corpus in multi30k tatoeba; do
        echo "$1, dev of $corpus: $(awk '$1 ~ /^(perplexity|bleu)$/ { printf "%s %.2f  ", $1, $2 }' "$RUN_DIR/$1.$corpus")"
    done
}

tune() {    # NAME --train ...: from the run, on 1,024 tokens an update
    local name=$1
    shift
    t2t-trainer --problem=text_pairs --hparams=small --init_from="$run" "$@" --dev "$data/dev.en.gz" "$data/dev.de.gz" \
        --set=learning_rate=3e-4 --set=warmup_steps=20 --set=train_steps=200 --set=batch_tokens=1024 --set=dropout=0.3 \
        --set=eval_steps=50 --set=report_steps=50 --set=checkpoint_steps=20 --precision=bfloat16 \
        --data_dir="$RUN_DIR/data" --output_dir="$RUN_DIR/$name"
    measure "$name" "$RUN_DIR/$name"
}

sample "$data" tatoeba
sample "$raw_dir" multi30k
measure before "$run"
tune tuned --train "$RUN_DIR/tatoeba.en" "$RUN_DIR/tatoeba.de"
tune mixed --train "$RUN_DIR/tatoeba.en" "$RUN_DIR/tatoeba.de" --train "$RUN_DIR/multi30k.en" "$RUN_DIR/multi30k.de"
