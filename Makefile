# Every target does its own set-up on a fresh Debian machine and prints what it installs.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
export PATH := $(HOME)/.cargo/bin:$(PATH)

CARGO_DENY_VERSION := 0.20.2

.PHONY: help setup build packages test check bench relays failover demo parity reproduce verify deny

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## (.*)/make \1\t\2/' | expand -t 16

setup: ## install what is missing: compilers, cargo, iproute2, iperf3 …
	@packaging/setup

build: TARGET := $(or $(CARGO_TARGET_DIR),target)
build: ## build the programs weft, weft-web, weft-controller and weft-lab, each with a file of debug information beside it
	@packaging/setup build
	cargo build --release --locked -p weft -p weft-web -p weft-controller -p weft-experiments
	@packaging/split-debug $(TARGET)/release/weft
	@packaging/split-debug $(TARGET)/release/weft-web
	@packaging/split-debug $(TARGET)/release/weft-controller
	@packaging/split-debug $(TARGET)/release/weft-lab

packages: TARGET := $(or $(CARGO_TARGET_DIR),target)
packages: build ## packages in out/packages: .deb, .rpm, OCI image; STATIC=1 adds a static tarball, TRY=1 installs, purges and starts them
	cargo build --release --locked -p weft --example pages -p weft-web --example web_pages -p weft-controller --example controller_pages -p weft-experiments --example lab_pages
	@packaging/deb $(TARGET)/release out/packages
	@packaging/oci $(TARGET)/release out/packages
	if command -v rpmbuild >/dev/null; then packaging/rpm $(TARGET)/release out/packages; else echo 'no .rpm: it takes rpmbuild, from the package rpm'; fi
	if [ -n "$(STATIC)" ]; then packaging/static $(TARGET) out/packages; else echo 'no static tarball: STATIC=1 builds it, which takes as long as make build'; fi
	if [ -n "$(TRY)" ]; then packaging/try-images out/packages; packaging/try-deb out/packages; fi

test: ## check formatting, lints and licences (if cargo-deny is installed), and run all tests
	@packaging/setup test
	cargo fmt --all --check
	@packaging/test
	if command -v cargo-deny >/dev/null; then cargo deny --log-level error check bans licenses sources; else echo 'cargo-deny is not installed: skipped here, done by make check'; fi

deny:
	@if ! command -v cargo-deny >/dev/null; then
	  echo "installing cargo-deny $(CARGO_DENY_VERSION) with cargo"
	  cargo install --locked cargo-deny --version $(CARGO_DENY_VERSION)
	fi

check: setup deny test ## test, then advisories, each fuzz target for 60 s, a million forged datagrams, proxies at their limits, the kill switch under 100 events, the page in Chromium, the controller under 10,000 kills, nfdump's sums, captures in Wireshark, 10,000 swarm seeds
	@if cargo deny --log-level error fetch db; then cargo deny --log-level error check advisories; else echo 'ADVISORIES NOT CHECKED: their database cannot be fetched from here' >&2; fi
	@fuzz/run.sh 60
	WEFT_CHECK=1 cargo test --release --locked -p weft --test hostile -- --nocapture
	WEFT_CHECK=1 cargo test --release --locked -p weft --test proxy -- --nocapture --test-threads 1
	WEFT_CHECK=1 cargo test --release --locked -p weft --test machine kill_switch -- --nocapture
	WEFT_CHECK=1 cargo test --release --locked -p weft-web --test page -- --nocapture --test-threads 1
	WEFT_CHECK=1 cargo test --release --locked -p weft-controller --test stores --test crashes -- --nocapture
	WEFT_CHECK=1 cargo test --release --locked -p weft --test capture
	WEFT_CHECK=1 cargo test --release --locked -p weft-flows --test ipfix_nfdump --test ipfix_tshark
	cargo run --release --locked -p weft-world --example swarm -- --seeds 0..10000

# BENCH passes more arguments to the benchmark, such as BENCH=--json.
BENCH ?=
bench: TARGET := $(or $(CARGO_TARGET_DIR),target)
bench: build ## measure one TCP flow beside wireguard-go, each stage of a packet's path, many VPNs, bytes of state; 10 minutes
	@packaging/setup lab
	export PATH="$$PATH:/usr/sbin:/sbin"
	cargo build --release --locked -p weft-lab --example tunnel_bench -p weft-engine --example state_bytes -p weft --example vpn_scale
	rm -rf $(TARGET)/criterion
	cargo bench --locked -p weft-core --bench packet_path -p weft-session --bench seal_open -- \
	  --warm-up-time 0.5 --measurement-time 1 --noplot --quiet >&2
	$(TARGET)/release/examples/state_bytes >$(TARGET)/state.tsv
	$(TARGET)/release/examples/vpn_scale >$(TARGET)/scale.tsv
	XDG_CACHE_HOME=$(abspath $(TARGET)) $(TARGET)/release/examples/tunnel_bench --weft $(TARGET)/release/weft \
	  --criterion $(TARGET)/criterion --state $(TARGET)/state.tsv --scale $(TARGET)/scale.tsv $(BENCH)

# RELAYS passes more arguments, such as RELAYS=--json.
RELAYS ?=
relays: TARGET := $(or $(CARGO_TARGET_DIR),target)
relays: build ## measure a TCP flow and 64-byte packets over none to three relays, nodes in transit, and wireguard-go; 18 minutes
	@packaging/setup lab
	export PATH="$$PATH:/usr/sbin:/sbin"
	cargo build --release --locked -p weft-lab --example tunnel_bench
	XDG_CACHE_HOME=$(abspath $(TARGET)) $(TARGET)/release/examples/tunnel_bench --weft $(TARGET)/release/weft --relays $(RELAYS)

failover: TARGET := $(or $(CARGO_TARGET_DIR),target)
failover: build ## measure how long traffic stops after a silent link failure, beside OSPF if FRR is installed; 11 minutes
	@packaging/setup lab
	$(TARGET)/release/weft-lab failover --out out/failover

demo: TARGET := $(or $(CARGO_TARGET_DIR),target)
demo: build ## run three unequal links as one network: table and plot in out/demo
	@packaging/setup lab
	$(TARGET)/release/weft-lab run scenarios/demo.toml --out out/demo

# ROWS selects rows, REPRODUCE passes more arguments: make reproduce ROWS="A2 D1" REPRODUCE=--quick. Other rows stay unchanged.
ROWS ?= all
REPRODUCE ?=
reproduce: TARGET := $(or $(CARGO_TARGET_DIR),target)
reproduce: build ## run the claims of papers 000 to 004 in the simulator: docs/reproduction.md and docs/figures
	$(TARGET)/release/weft-lab reproduce $(ROWS) --out docs $(REPRODUCE)

# TOPIC names the topic. FULL=1 runs all its checks, OUT=file also writes them as JSON, TRACES=dir uses recorded links.
# VERIFY passes more arguments, such as VERIFY="--only bundles --threads 1".
TOPIC ?=
FULL ?=
OUT ?=
TRACES ?=
VERIFY ?=
verify: TARGET := $(or $(CARGO_TARGET_DIR),target)
verify: ## list the checks of a topic that fail: TOPIC=links; FULL=1, OUT=file, TRACES=dir; 10 minutes, with FULL=1 about 14 hours
	@packaging/setup $(if $(filter 1,$(FULL)),lab,test)
	cargo build --release --locked -p weft-world --example verify $(if $(filter 1,$(FULL)),-p weft -p weft-experiments --bins)
	$(TARGET)/release/examples/verify $(TOPIC) $(if $(filter 1,$(FULL)),--full --weft $(TARGET)/release/weft) \
	  $(if $(OUT),--out "$(OUT)") $(if $(TRACES),--traces "$(TRACES)") $(VERIFY)

# PARITY passes more arguments, such as PARITY='--lab out/lab.json' for earlier results of the lab.
PARITY ?=
parity: TARGET := $(or $(CARGO_TARGET_DIR),target)
parity: build ## compare the lab and the simulator on the same scenarios, five runs each, in one table; 4 hours
	@packaging/setup lab
	$(TARGET)/release/weft-lab parity scenarios/{home-office,paper-002-access,paper-002-heterogeneous,paper-002-table1,clean-links,cut-and-restore,vpn-start-up,vpn-many,vpn-flood,vpn-assured,vpn-leased}.toml \
	  --repeat 5 $(PARITY)
