#!/bin/sh
# Runs every fuzz target for SECONDS each (default 60); stops at the first finding. See README.md.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}

# The sanitizer is a nightly feature of the compiler; this lets the stable one have it.
export RUSTC_BOOTSTRAP=1

command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz

for target in $(cargo fuzz list); do
    mkdir -p "fuzz/corpus/$target" "fuzz/seeds/$target"
    echo "== $target, $seconds s" >&2
    cargo fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
done
