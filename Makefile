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

# Hooks for people who share a machine, for example RUN=slot to queue for a build slot.
RUN        ?=

.DEFAULT_GOAL := release
.PHONY: help release install deps demo test unit check lint licences check-units package-tests bench deb rpm clean

help:
	@echo 'make release   static release binaries in $(BIN)'
	@echo 'make demo      the whole boot job on a sample seed, in a directory of its own'
	@echo 'make test      every test'
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
	BIN=$(BIN) VERSION=$(VERSION) deb/build build

rpm: release
	BIN=$(BIN) VERSION=$(VERSION) rpm/build build

deps:
	@packaging/deps test

# --- trying and testing -----------------------------------------------------------------------

demo: release
	BIN=$(BIN) tests/demo.sh

test: deps lint licences unit check

lint:
	$(RUN) $(CARGO) fmt --all --check
	$(RUN) $(CARGO) clippy --workspace --all-targets -j $(JOBS) -- -D warnings

licences:
	tests/licences

unit:
	$(RUN) $(CARGO) test --workspace $(if $(TESTS),--exclude tests) -j $(JOBS)

# Whole programs, units, packages and boots. They use the release binaries, and mostly need root.
check: release check-units package-tests
	$(if $(TESTS),BIN=$(BIN) $(RUN) $(CARGO) test -p tests -j $(JOBS))

check-units: release
	BIN=$(BIN) VERSION=$(VERSION) tests/units.sh

package-tests: deb rpm
	tests/package-deb.sh build/firstlight_*.deb
	tests/package-rpm.sh build/firstlight-*.rpm

bench: release
	BIN=$(BIN) tests/bench.sh

clean:
	rm -rf build
	$(CARGO) clean
