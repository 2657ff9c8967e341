#!/usr/bin/env bash
# Tries several machines on this one: starts N workers with the same command, and shows the chief's output.
#   scripts/loopback.sh N t2t-trainer FLAGS       the others' output goes to worker-1.log, ... in LOG_DIR (default: .)
# PORT: of the first (9360). Exit code: the first that is not 0.
set -uo pipefail
count=${1:?usage: scripts/loopback.sh N t2t-trainer FLAGS}
shift
port=${PORT:-9360}
addresses=$(for i in $(seq 0 $((count - 1))); do printf '"127.0.0.1:%s",' $((port + i)); done)
pids=()
for i in $(seq 0 $((count - 1))); do
    export TF_CONFIG="{\"cluster\": {\"worker\": [${addresses%,}]}, \"task\": {\"type\": \"worker\", \"index\": $i}}"
    if [ "$i" = 0 ]; then "$@" & else "$@" >"${LOG_DIR:-.}/worker-$i.log" 2>&1 & fi
    pids+=($!)
done
trap 'kill "${pids[@]}" 2>/dev/null' INT TERM
code=0
for pid in "${pids[@]}"; do
    wait "$pid" || code=$((code ? code : $?))
done
exit "$code"
