# What can be done here: `make help`.

CARGO ?= cargo
FUZZ_SECONDS ?= 10
SOAK_CASES ?= 100000
SOAK_FAULTS ?= 100
SOAK_LOOPS ?= 200
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR ?=
# What install takes instead of building it.
PROGRAM ?=

program = $(or $(PROGRAM),$(or $(CARGO_TARGET_DIR),target)/release/longhaul)
man = $(DESTDIR)$(PREFIX)/share/man/man1
bash = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zsh = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
units = longhaul.service longhaul@.service longhaul-door.service longhaul-door.socket longhaul-controller.service \
	longhaul-driver.service
fish = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

.DEFAULT_GOAL := help
.PHONY: bench demo doc fmt fuzz help install lint soak test uninstall

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build Longhaul; move a dataset, kill and resume it; as root also over an emulated ocean, which sites then share
	@echo "==> demo: build, a dataset moved and killed, then over an emulated ocean, then sites that share it (scripts/demo)"
	@scripts/demo

# Tests of the whole program wait more than they compute: two at a time for each processor take two thirds of the time of one.
test: export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
test: ## Run all tests, of every crate and of the whole program
	@echo "==> test: what the tests use, installed where it is not and where that can be done"
	@scripts/bootstrap || echo "==> test: the tests that need what is missing say so and are skipped"
	@echo "==> test: unit, property and integration tests of every crate and of the whole program"
	@# With what tests print that pass: a test that is skipped says so there.
	$(CARGO) test --workspace --no-fail-fast -- --show-output

lint: ## Check the form of the code and clippy's advice; nothing may be left
	@echo "==> lint: rustfmt and clippy, warnings are errors"
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt: ## Bring the code into its form
	@echo "==> fmt: rustfmt on every crate"
	$(CARGO) fmt --all

doc: ## Build the documentation of every crate; broken links are errors
	@echo "==> doc: rustdoc on every crate, warnings are errors"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

fuzz: ## Fuzz every target in fuzz/ for FUZZ_SECONDS each (10)
	@echo "==> fuzz: every target in fuzz/, $(FUZZ_SECONDS) s each"
	scripts/fuzz $(FUZZ_SECONDS)

soak: ## Run the tests optimised: SOAK_CASES cases per property (100000), SOAK_FAULTS faults (100), SOAK_LOOPS stories (200)
	@echo "==> soak: every test, optimised, $(SOAK_CASES) cases per property, $(SOAK_FAULTS) faults, $(SOAK_LOOPS) stories; this takes long"
	PROPTEST_CASES=$(SOAK_CASES) FAULT_CASES=$(SOAK_FAULTS) LOOP_SEEDS=$(SOAK_LOOPS) LOOP_LONG=45 LOOP_WINDOW=60 \
		LOOP_AWAY_SECONDS=600 $(CARGO) test --workspace --release --no-fail-fast
	@echo "==> soak: a million files, a file of 10 TiB"
	$(CARGO) test --release --package longhaul --test e2e -- --ignored --nocapture

bench: ## Compare with other movers on this machine (first: scripts/bootstrap bench)
	@echo "==> bench: the same datasets with Longhaul and its peers (bench/run)"
	bench/run

install: ## Install program, manual, completions, service below PREFIX (/usr/local); DESTDIR for packagers
	@echo "==> install: to $(DESTDIR)$(PREFIX) and $(DESTDIR)$(SYSCONFDIR)"
	$(if $(PROGRAM),,$(CARGO) build --release --locked --package longhaul)
	install -Dm755 "$(program)" "$(DESTDIR)$(PREFIX)/bin/longhaul"
	install -d "$(man)" "$(bash)" "$(zsh)" "$(fish)"
	umask 022 && "$(program)" man "$(man)"
	umask 022 && "$(program)" completions bash > "$(bash)/longhaul"
	umask 022 && "$(program)" completions zsh > "$(zsh)/_longhaul"
	umask 022 && "$(program)" completions fish > "$(fish)/longhaul.fish"
	for unit in $(units); do \
		sed 's|/usr/bin/longhaul|$(PREFIX)/bin/longhaul|' packaging/$$unit | \
			install -Dm644 /dev/stdin "$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit" || exit 1; \
	done
	install -Dm644 packaging/longhaul.sysusers "$(DESTDIR)$(PREFIX)/lib/sysusers.d/longhaul.conf"
	install -Dm644 packaging/longhaul.tmpfiles "$(DESTDIR)$(PREFIX)/lib/tmpfiles.d/longhaul.conf"
	install -Dm644 packaging/roots.conf "$(DESTDIR)$(PREFIX)/share/longhaul/roots.conf"
	install -Dm644 packaging/serve.toml "$(DESTDIR)$(PREFIX)/share/longhaul/serve.toml"
	install -Dm644 packaging/controller.toml "$(DESTDIR)$(PREFIX)/share/longhaul/controller.toml"
	install -Dm644 packaging/driver.toml "$(DESTDIR)$(PREFIX)/share/longhaul/driver.toml"
	install -Dm644 packaging/door.toml "$(DESTDIR)$(PREFIX)/share/longhaul/door.toml"
	[ -e "$(DESTDIR)$(SYSCONFDIR)/longhaul/serve.toml" ] || \
		install -Dm640 packaging/serve.toml "$(DESTDIR)$(SYSCONFDIR)/longhaul/serve.toml"

uninstall: ## Remove what install put there, with the same PREFIX and DESTDIR; the configuration stays
	@echo "==> uninstall: from $(DESTDIR)$(PREFIX); $(DESTDIR)$(SYSCONFDIR)/longhaul stays"
	rm -f "$(DESTDIR)$(PREFIX)/bin/longhaul" "$(man)"/longhaul.1 "$(man)"/longhaul-*.1
	rm -f "$(bash)/longhaul" "$(zsh)/_longhaul" "$(fish)/longhaul.fish"
	for unit in $(units); do rm -f "$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit"; done
	rm -f "$(DESTDIR)$(PREFIX)/lib/sysusers.d/longhaul.conf" "$(DESTDIR)$(PREFIX)/lib/tmpfiles.d/longhaul.conf"
	rm -rf "$(DESTDIR)$(PREFIX)/share/longhaul"
