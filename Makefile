# Every target does its own set-up on a fresh Debian machine and says what it installs.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
export PATH := $(HOME)/.cargo/bin:$(PATH)

CARGO_DENY_VERSION := 0.20.2

.PHONY: help setup build test check bench demo deny

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## (.*)/make \1\t\2/' | expand -t 14

setup: ## install what is missing: compilers, cargo, iproute2, iperf3 …
	@packaging/setup

build: setup
	@cargo build --release --locked -p weft

test: setup ## formatting, lints, all tests, licences (if cargo-deny is there)
	@cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked
	if command -v cargo-deny >/dev/null; then cargo deny --log-level error check; else echo 'cargo-deny is not installed: skipped here, done by make check'; fi

deny: setup
	@if ! command -v cargo-deny >/dev/null; then
	  echo "installing cargo-deny $(CARGO_DENY_VERSION) with cargo"
	  cargo install --locked cargo-deny --version $(CARGO_DENY_VERSION)
	fi

check: deny test ## test, then each fuzz target for 60 s
	@fuzz/run.sh 60

bench: setup ## micro-benchmarks of each stage of a packet's way
	@cargo bench --workspace --benches --locked

demo: build ## three unequal links, one network: table and picture in out/demo
	@target/release/weft lab run scenarios/demo.toml --out out/demo
