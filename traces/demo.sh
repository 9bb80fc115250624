#!/bin/sh
# The whole way once: a log, a trace, a target, a replay with its peak doubled, a report.
# Every command is printed before it runs, so that it can be repeated by hand.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
cd "$here"
mkdir -p demo

say() { printf '\n$ %s\n' "$*"; "$@"; }

say loadgen record traces/sample-access.log.1 traces/sample-access.log --format nginx --path /v1/ \
    -o demo/sample.parquet --force
say loadgen trace info demo/sample.parquet
say loadgen plan demo/sample.parquet --inject-peak

printf '\n$ loadgen serve --policy dynamic --port 0 --ready-file demo/ready.json &\n'
rm -f demo/ready.json
loadgen serve --policy dynamic --port 0 --ready-file demo/ready.json --request-log demo/server.parquet &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT INT TERM
waited=0
while [ ! -f demo/ready.json ]; do
    kill -0 "$server" 2>/dev/null || { echo "the target did not start" >&2; exit 5; }
    waited=$((waited + 1)); [ "$waited" -lt 600 ] || { echo "the target was not ready within 60 s" >&2; exit 5; }
    sleep 0.1
done
url=$(python -c 'import json; print(json.load(open("demo/ready.json"))["url"])')

# The sample's prompts and answers are cut down to what a CPU can carry; its arrivals stay as they are.
say loadgen replay demo/sample.parquet --url "$url" --inject-peak --ignore-eos \
    --scale-input 0.03 --max-input 32 --scale-output 0.06 --max-output 64 --out-dir demo/runs --name demo || status=$?

kill -TERM "$server"
wait "$server" || true
trap - EXIT INT TERM
run=$(ls -dt demo/runs/demo-* | head -n 1)
printf '\nThe run is kept in %s; show its report again with: loadgen report %s\n' "$run" "$run"
case "${status:-0}" in
    4) echo "This machine was too busy to send in time, so the run does not count, and says so: that is exit code 4." ;;
    *) exit "${status:-0}" ;;
esac
