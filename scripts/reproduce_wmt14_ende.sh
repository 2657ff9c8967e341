#!/usr/bin/env bash
# The paper's English-German runs (section 6.1, Table 2), command by command, for one machine with eight GPUs.
#
#   scripts/reproduce_wmt14_ende.sh [--dry_run] [base] [big]     both sets unless named; --dry_run prints the commands
#
#           updates   paper, 8 P100    BLEU on newstest2014   here
#   base    100,000   12 hours         27.3                   not run here
#   big     300,000   3.5 days         28.4                   not run here
#
# The paper's BLEU is the older one, on tokens with compounds split: the labelled line that t2t-bleu prints last.
# Every command may be repeated: what is done is kept, and training goes on where it stopped.
# Where: DATA_DIR (corpus and vocabulary, some 5 GB) and RUN_DIR (one folder a set; big needs 22 GB for its checkpoints).
set -euo pipefail

DATA_DIR=${DATA_DIR:-t2t_data}
RUN_DIR=${RUN_DIR:-runs}
dry_run=false
sets=()
for argument in "$@"; do
  case $argument in
    --dry_run) dry_run=true ;;
    base|big) sets+=("$argument") ;;
    -h|--help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit ;;
    *) echo "unknown argument $argument; expected --dry_run, base or big" >&2; exit 2 ;;
  esac
done
[ ${#sets[@]} -gt 0 ] || sets=(base big)

# run [--to FILE] COMMAND...: prints the command, then runs it; its output goes to FILE, which is complete or absent.
run() {
  local file=
  if [ "$1" = --to ]; then file=$2; shift 2; fi
  echo "+ $*${file:+ > $file}"
  if $dry_run; then return; fi
  if [ -z "$file" ]; then "$@"; else "$@" > "$file.part" && mv "$file.part" "$file"; fi
}

# 4.5 million pairs from TensorFlow Datasets, and the shared vocabulary of 37,000 sub-words (section 5.1).
run t2t-datagen --problem=wmt14_ende --data_dir="$DATA_DIR"

# newstest2014 as text: all 3,003 lines.
run mkdir -p "$RUN_DIR"
run --to "$RUN_DIR/newstest2014.en" sacrebleu --test-set wmt14/full --language-pair en-de --echo src
run --to "$RUN_DIR/newstest2014.de" sacrebleu --test-set wmt14/full --language-pair en-de --echo ref

for set in "${sets[@]}"; do
  run_dir=$RUN_DIR/wmt14_ende_$set
  run t2t-trainer --problem=wmt14_ende --hparams="$set" --data_dir="$DATA_DIR" --output_dir="$run_dir"
  # The last 5 checkpoints of base, the last 20 of big (section 6.1).
  run t2t-avg-all --output_dir="$run_dir"
  # Beam 4, length penalty 0.6, at most 50 sub-words more than the input: the problem's defaults (section 6.1).
  run t2t-decoder --output_dir="$run_dir" --input="$RUN_DIR/newstest2014.en" --output="$run_dir/newstest2014.de"
  run t2t-bleu --translation="$run_dir/newstest2014.de" --reference="$RUN_DIR/newstest2014.de"
done
