# What a person or a packager types. `make help` lists it.
#
# Settings: DESTDIR, PREFIX, FAMILY (debian, redhat, suse), VARIANT (packaging/variants), LIBEXECDIR, TARGET (a
# Rust target triple), CARGO, JOBS.

CARGO      ?= cargo
JOBS       ?= $(shell nproc 2>/dev/null || echo 1)
DESTDIR    ?=
PREFIX     ?= /usr
FAMILY     ?= debian
VARIANT    ?= $(if $(filter redhat,$(FAMILY)),rhel,$(FAMILY))
LIBEXECDIR ?=
BIN        ?= $(CURDIR)/build/bin
VERSION    := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# The package of whole-program tests, which wants the binaries built first.
TESTS      := $(wildcard tests/Cargo.toml)

# How tests that need root are started, with what they read from the environment.
AS_ROOT    = $(if $(filter-out 0,$(shell id -u)),sudo -n) env BIN=$(BIN) $(foreach name,FIRSTLIGHT_CACHE \
    FIRSTLIGHT_MIRROR FIRSTLIGHT_SUITE FIRSTLIGHT_JUDGE FIRSTLIGHT_KEEP FIRSTLIGHT_POINTS FIRSTLIGHT_POINT FIRSTLIGHT_REPORT FIRSTLIGHT_JOBS \
    FIRSTLIGHT_ROOTS FIRSTLIGHT_UBUNTU_MIRROR,$(if $($(name)),$(name)=$($(name))))
HOST       = $(shell rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')

# Hooks for people who share a machine, for example RUN=slot to queue for a build slot.
RUN        ?=

# So that the last line is what the tests say.
MAKEFLAGS  += --no-print-directory

.DEFAULT_GOAL := release
.PHONY: help release install deps demo test unit check lint licences devices whole check-units package-tests root fresh torture roots bench deb rpm clean

help:
	@echo 'make release   static release binaries in $(BIN)'
	@echo 'make demo      the whole boot job on a sample seed, in a directory of its own'
	@echo 'make test      every test'
	@echo 'make fresh     make demo and make test in bare roots (SUITES=, FRESH_COMMANDS=, KEEP=1)'
	@echo 'make torture   kills and injected faults at many points of every stage'
	@echo 'make roots     a boot of every suite'"'"'s smallest root'
	@echo 'make install   DESTDIR= PREFIX= FAMILY=debian|redhat|suse VARIANT= LIBEXECDIR='
	@echo 'make deb, rpm  packages in build/'
	@echo 'make bench     figures beside those of the packaged cloud-init'
	@echo 'make deps      installs what the above need, or says what to install'

# --- building ---------------------------------------------------------------------------------

release:
	@packaging/deps
	@RUN='$(RUN)' CARGO='$(CARGO)' JOBS='$(JOBS)' TARGET='$(TARGET)' packaging/build '$(BIN)'

install:
	@test -x $(BIN)/cloud-init || $(MAKE) --no-print-directory release
	packaging/install VARIANT=$(VARIANT) BIN=$(BIN) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) \
	    $(if $(LIBEXECDIR),LIBEXECDIR=$(LIBEXECDIR)) VERSION=$(VERSION) $(if $(STRIP),STRIP=$(STRIP))

deb: release
	@rm -f build/firstlight_*.deb
	BIN=$(BIN) VERSION=$(VERSION) deb/build build

rpm: release
	@rm -f build/firstlight-*.rpm
	BIN=$(BIN) VERSION=$(VERSION) rpm/build build

deps:
	@packaging/deps test

# --- trying and testing -----------------------------------------------------------------------

# First all that is missing, in one line, then a build that takes minutes.
demo:
	@packaging/deps demo
	@$(MAKE) --no-print-directory release
	BIN=$(BIN) tests/demo.sh

test: deps
	+@MAKE='$(MAKE)' tests/run lint licences unit devices check-units package-tests whole

lint:
	tests/programs
	tests/files.sh
	$(RUN) $(CARGO) fmt --all --check
	$(RUN) $(CARGO) clippy --workspace --all-targets -j $(JOBS) -- -D warnings

licences:
	tests/licences

unit:
	$(RUN) $(CARGO) test --no-fail-fast --workspace $(if $(TESTS),--exclude tests) -j $(JOBS)

# Growth of partitions and file systems, and labelled disks: on loop devices, as root.
devices: root
	@[ -e /dev/loop-control ] || { echo 'make: disks are tested on loop devices, which this host does not have' >&2; exit 1; }
	@ext4=$$($(AS_ROOT) sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status); left_out=''; \
	[ $$((0x$$ext4 >> 24 & 1)) = 1 ] || { left_out='--skip ext4'; \
	    echo 'not tried: growth of ext4, which takes CAP_SYS_RESOURCE; this host keeps it from root'; }; \
	CARGO_TARGET_$(HOST)_RUNNER='$(AS_ROOT)' $(RUN) $(CARGO) test --no-fail-fast -p modules --lib -j $(JOBS) growth -- --include-ignored $$left_out
	CARGO_TARGET_$(HOST)_RUNNER='$(AS_ROOT)' $(RUN) $(CARGO) test --no-fail-fast -p datasource --test disks -j $(JOBS) -- --include-ignored

# Whole programs, units, packages and boots. They use the release binaries, and mostly need root.
check: devices check-units package-tests whole

whole: root deb
	$(if $(TESTS),CARGO_TARGET_$(HOST)_RUNNER='$(AS_ROOT)' $(RUN) $(CARGO) test --no-fail-fast -p tests -j $(JOBS))

check-units: root release
	$(AS_ROOT) tests/units.sh

package-tests: root deb rpm
	$(AS_ROOT) tests/package-deb.sh build/firstlight_*.deb
	$(AS_ROOT) tests/package-rpm.sh build/firstlight-*.rpm

root:
	@[ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null || { echo 'make: units, packages and boots are tested as root: "sudo -v" first' >&2; exit 1; }
	@$(AS_ROOT) unshare --mount --net --uts true 2>/dev/null || { echo 'make: units, packages and boots need mount and network namespaces, which this host refuses to root' >&2; exit 1; }

# The README's commands where nothing else is installed: the oldest and the newest suite that is supported.
SUITES         ?= bookworm sid
FRESH_COMMANDS ?= make demo; make test
fresh: root
	@packaging/deps test
	$(AS_ROOT) $(if $(KEEP),KEEP=$(KEEP)) CARGO_HOME="$${CARGO_HOME:-$$HOME/.cargo}" RUSTUP_HOME="$${RUSTUP_HOME:-$$HOME/.rustup}" \
	    FRESH_COMMANDS='$(FRESH_COMMANDS)' $(RUN) tests/fresh $(SUITES)

# Kills and failing system calls at many points of every stage: POINTS of each kind a stage, 50 min with 300.
POINTS ?= 300
torture: FIRSTLIGHT_POINTS = $(POINTS)
torture: root release
	CARGO_TARGET_$(HOST)_RUNNER='$(AS_ROOT)' $(RUN) $(CARGO) test --no-fail-fast -p tests -j $(JOBS) \
	    --test kill --test inject

# Every suite's smallest root, with and without what images leave out.
roots: FIRSTLIGHT_ROOTS = all
roots: root deb
	CARGO_TARGET_$(HOST)_RUNNER='$(AS_ROOT)' $(RUN) $(CARGO) test --no-fail-fast -p tests -j $(JOBS) --test minimal_roots

bench: release
	BIN=$(BIN) tests/bench.sh
	BIN=$(BIN) tests/bench-network.sh

clean:
	rm -rf build
	$(CARGO) clean
