#!/bin/sh
# Prints which lines of weft-wire's decoders the corpora and seeds reach, by file. See README.md.
set -eu
cd "$(dirname "$0")"

rustup component add llvm-tools >/dev/null 2>&1
tools=$(dirname "$(find "$(rustc --print sysroot)" -name llvm-cov -type f | head -1)")
profiles=$(mktemp -d)
trap 'rm -rf "$profiles"' EXIT

export RUSTFLAGS='-Cinstrument-coverage --cfg fuzzing' CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/coverage"
LLVM_PROFILE_FILE=/dev/null cargo build --quiet --bins

objects=''
for source in fuzz_targets/*.rs; do
    target=$(basename "$source" .rs)
    inputs=$(find "corpus/$target" "seeds/$target" -type f 2>/dev/null || true)
    [ -n "$inputs" ] || continue
    echo "== $target" >&2
    echo "$inputs" | LLVM_PROFILE_FILE="$profiles/$target-%p.profraw" \
        xargs -n 1000 timeout 600 "$CARGO_TARGET_DIR/debug/$target" >/dev/null 2>&1 || echo "$target failed" >&2
    objects="$objects -object $CARGO_TARGET_DIR/debug/$target"
done
"$tools/llvm-profdata" merge -sparse "$profiles"/*.profraw -o "$profiles/all"
# shellcheck disable=SC2086
"$tools/llvm-cov" report ${objects# -object} -instr-profile="$profiles/all" --sources ../crates/weft-wire/src |
    awk '$8 ~ /^[0-9]+$/ { printf "%7s of %5d lines not reached, %7s reached  %s\n", $9, $8, $10, $1 }'
