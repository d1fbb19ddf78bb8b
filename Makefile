# Building, testing, installing and packaging. `make help` lists the targets: a target whose line ends in `## TEXT` is
# public, and `make lint` refuses a .PHONY target without such a text.
#
# Settings: DESTDIR, PREFIX, FAMILY (debian, redhat, suse), VARIANT (packaging/variants), LIBEXECDIR, ENABLE (empty: `make install` enables no units), TARGET (a Rust
# target triple; for `make fuzz` the name of a fuzz target), BIN and OUT (directories of the programs and of the packages), CARGO,
# JOBS, RUN (a command before every cargo call), PREBUILT (build/test has the programs and packages for the tests already).

CARGO      ?= cargo
JOBS       ?= $(shell nproc 2>/dev/null || echo 1)
DESTDIR    ?=
PREFIX     ?= /usr
FAMILY     ?= debian
VARIANT    ?= $(if $(filter redhat,$(FAMILY)),rhel,$(FAMILY))
LIBEXECDIR ?=
BIN        ?= $(CURDIR)/build/bin
OUT        ?= build
VERSION    := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# Prefix of tests that need root, with the variables that they read.
AS_ROOT    = $(if $(filter-out 0,$(shell id -u)),sudo -n) env BIN=$(BIN) $(foreach name,FIRSTLIGHT_CACHE \
    FIRSTLIGHT_MIRROR FIRSTLIGHT_SUITE FIRSTLIGHT_REFERENCE FIRSTLIGHT_KEEP FIRSTLIGHT_POINTS FIRSTLIGHT_POINT FIRSTLIGHT_REPORT FIRSTLIGHT_JOBS \
    FIRSTLIGHT_ROOTS FIRSTLIGHT_UBUNTU_MIRROR FIRSTLIGHT_CASE FIRSTLIGHT_CLOUD FIRSTLIGHT_FS WRITE,$(if $($(name)),$(name)=$($(name))))
# Runs parts of the tests.
TESTS      = GOAL='$@' MAKE='$(MAKE)' RUN='$(RUN)' CARGO='$(CARGO)' JOBS='$(JOBS)' RUNNER='$(AS_ROOT)' PREBUILT='$(PREBUILT)' tests/run
HOST       = $(shell rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')

# A command before every cargo call, for example `nice` or a queue on a shared machine.
RUN        ?=

# The last line of the output is the result of the tests.
MAKEFLAGS  += --no-print-directory

.DEFAULT_GOAL := release
.PHONY: help release install publish release-tests generated docs deps demo desk test lint unit devices check-units package-tests whole slow slow-tests weekly test-all \
    programs record-check nova-check root fresh torture roots fuzz fuzz-all bench deb rpm dist dist-tests init-systems architectures tutorial guide \
    image bootable-image browser clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | while IFS="$$(printf '\t')" read -r target text; do \
	    printf 'make %-14s %s\n' "$$target" "$$text"; done || [ $$? = 141 ] # SIGPIPE, as in `make help | head`

# --- building ---------------------------------------------------------------------------------

release: ## build static release binaries in build/bin (TARGET=TRIPLE cross-compiles)
	@packaging/deps
	@RUN='$(RUN)' CARGO='$(CARGO)' JOBS='$(JOBS)' TARGET='$(TARGET)' PROFILE='$(PROFILE)' packaging/build '$(BIN)'

ENABLE     ?= yes
install: ## install a built tree and enable its units (DESTDIR= PREFIX= FAMILY= VARIANT= LIBEXECDIR= ENABLE=)
	@test -x $(BIN)/cloud-init || $(if $(filter command%,$(origin BIN)),{ echo 'make: $(BIN) has no programs' >&2; exit 1; },$(MAKE) --no-print-directory release)
	packaging/install VARIANT=$(VARIANT) BIN=$(BIN) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) \
	    $(if $(LIBEXECDIR),LIBEXECDIR=$(LIBEXECDIR)) VERSION=$(VERSION) ENABLE=$(ENABLE) $(if $(STRIP),STRIP=$(STRIP))

deb: release ## build a Debian package in build/
	@packaging/deps deb
	BIN=$(BIN) $(if $(FAST),COMPRESSION='-Zgzip -z1') deb/build $(OUT)

rpm: release ## build an RPM package in build/
	@packaging/deps rpm
	BIN=$(BIN) $(if $(FAST),COMPRESSION=w1.gzdio) rpm/build $(OUT)

programs: ## build the programs and packages for the tests in build/test (not optimized)
	@$(MAKE) deb rpm PROFILE=test-programs BIN='$(CURDIR)/build/test/bin' OUT=build/test FAST=1

dist: ## make the source release of the checked-out commit, with vendored crates, in build/ (SIGN=)
	@packaging/deps dist
	@CARGO='$(CARGO)' packaging/dist build

publish: ## make a release in build/publish: tag, source, packages, static programs, book (VERSION= TARGETS= SIGN=)
	@packaging/deps dist
	@CARGO='$(CARGO)' JOBS='$(JOBS)' TARGETS='$(TARGETS)' packaging/release '$(VERSION)' build/publish

release-tests: root ## install and run the assets of build/publish in minimal roots (root)
	$(AS_ROOT) tests/release.sh build/publish

generated: ## write what is generated from tables: mod lines, module lists, reference, manual pages, completions, schemas
	tests/register
	tests/waits
	UPDATE_GENERATED=1 $(RUN) $(CARGO) test -p cloud-init -p clouds -p datasource -p modules -j $(JOBS) generated

docs: ## check links and commands of the documentation, and build the book in build/book if mdbook is installed
	tests/documents
	packaging/book build/book-src
	@if command -v mdbook >/dev/null; then mdbook build build/book-src; else echo 'not tried: the book: mdbook is not installed'; fi

deps: ## install missing build and test dependencies, or print the command that does
	@packaging/deps test

# --- trying and testing -----------------------------------------------------------------------

# Missing dependencies are reported before the build, which takes minutes.
demo: ## run the boot stages on a sample seed in a directory, without root
	@packaging/deps demo
	@$(MAKE) --no-print-directory release
	BIN=$(BIN) tests/demo.sh

# The parts of each tier, in the table of CONTRIBUTING.md.
desk: deps ## text checks, and clippy and unit tests of the crates that changed and of those that depend on them
	+@$(TESTS) desk

# TEST is a file of tests/tests, a crate, or both; CASE selects tests by a part of their name.
TEST ?=
CASE ?=
ifeq ($(TEST),)
test: deps ## run the tests of every change, or some: TEST=FILE-or-CRATE [CASE=part-of-a-name]
	+@$(TESTS) lint unit devices check-units package-tests whole
else
test: $(if $(wildcard tests/tests/$(TEST).rs),root,deps)
	+@TEST='$(TEST)' CASE='$(CASE)' $(TESTS) one
endif

lint: ## check formatting, clippy, wording, documents, installed files, dependencies and their licences
	+@$(TESTS) lint

unit: ## run the unit tests of every crate
	+@$(TESTS) unit

devices: root ## run the unit tests that need loop devices (root)
	+@$(TESTS) devices

check-units: root ## verify the systemd units with systemd-analyze and systemd (root)
	+@$(TESTS) check-units

package-tests: root ## install, upgrade and remove the packages (root)
	+@$(TESTS) package-tests

whole: root ## run the integration tests of tests/tests (root)
	+@$(TESTS) whole

# The parts of slow and weekly are all run, also after a failure.
slow: root ## run the tests of every night: virtual machines, faults of every cloud, kills and failing system calls, fuzzing (root, hours)
	+@$(MAKE) -k slow-tests fuzz-all init-systems tutorial guide

slow-tests: root ## the same without fuzzing, init systems, tutorial and guide (root)
	+@$(TESTS) slow

browser: deps ## build the check of docs/how-to/try.md, and try it in headless Chromium beside the command (2 min)
	$(RUN) tests/browser/build build/try-check.js
	$(RUN) $(CARGO) build -q -p cloud-init
	@if command -v chromium >/dev/null; then tests/browser/test $(or $(CARGO_TARGET_DIR),target)/debug; else echo 'not tried: test browser: chromium is not installed'; fi

weekly: ## run the tests of every week: records, seeds of nova, source release, architectures, images, torture, fresh machine (root, hours)
	+@$(MAKE) -k record-check nova-check dist-tests architectures image bootable-image torture roots fresh browser

test-all: ## run all tests: `make test`, `make slow` and `make weekly` (root, hours)
	+@$(MAKE) -k test slow weekly

root: deps ## check that tests can run as root and create namespaces
	@[ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null || { echo 'make: these tests run as root: run "sudo -v" first' >&2; exit 1; }
	@$(AS_ROOT) unshare --mount --net --uts true 2>/dev/null || { echo 'make: these tests need mount and network namespaces, which this host denies to root' >&2; exit 1; }

# The slow part, which CI runs at night. The packages that the suites' own tools have built are booted.
DIST_SUITES ?= trixie forky sid
dist-tests: root deps ## test the source release: reproducible, offline, as Debian and RPM build it (root, 40 min; DIST_SUITES=)
	@$(MAKE) dist
	$(AS_ROOT) $(RUN) env CARGO='$(CARGO)' JOBS='$(JOBS)' tests/dist.sh build/firstlight-$(VERSION).tar.xz build/dist $(DIST_SUITES)
	@set -e; for suite in $(DIST_SUITES); do echo "$$suite: its package, booted"; \
	    CARGO_TARGET_$(HOST)_RUNNER="$(AS_ROOT) FIRSTLIGHT_SUITE=$$suite \
	        FIRSTLIGHT_DEB=$$(echo $(CURDIR)/build/dist/$$suite/firstlight_*.deb)" \
	        $(RUN) $(CARGO) test --no-fail-fast -p tests -j $(JOBS) --test whole -- package_life:: autopkgtest::; done

init-systems: root release ## boot with OpenRC and with sysvinit instead of systemd (root, 2 min)
	$(AS_ROOT) tests/boot-init-systems

# TARGETS: Rust targets of packaging/targets.sh, and `boot` for a virtual machine of aarch64.
architectures: root release ## build for other architectures, and test them with qemu-user (root, 60 min; TARGETS=)
	@packaging/deps architectures
	@BIN='$(BIN)' RUN='$(RUN)' CARGO='$(CARGO)' JOBS='$(JOBS)' RUNNER='$(AS_ROOT)' HOST='$(HOST)' tests/architectures $(TARGETS)

tutorial: root deb ## follow docs/tutorial.md to the login on its virtual machine (root, 2 min)
	$(AS_ROOT) tests/tutorial build/firstlight_*.deb

guide: root deb ## follow docs/how-to/image.md from a cloud image to the second boot of its virtual machine (root, 5 min)
	$(AS_ROOT) tests/guide build/firstlight_*.deb

# The images are kept in build/image. BOOTS: how often each is booted.
image: root deb ## build minimal Debian images with mkosi, boot them, compare with cloud-init's (root, 30 min; BOOTS=)
	@packaging/deps test
	$(AS_ROOT) $(RUN) images/build build/firstlight_*.deb build/image
	$(AS_ROOT) $(if $(BOOTS),BOOTS=$(BOOTS)) images/measure build/image

bootable-image: root deb ## build a minimal Debian image with a kernel and a boot loader, boot it with UEFI (root, 10 min)
	@packaging/deps test
	$(AS_ROOT) $(RUN) images/build build/firstlight_*.deb build/image bootable
	$(AS_ROOT) images/measure build/image bootable

# The README's commands on the oldest and the newest supported suite.
SUITES         ?= bookworm sid
FRESH_COMMANDS ?= make demo; make test
fresh: root ## run make demo and make test in minimal chroots (root; SUITES= FRESH_COMMANDS= KEEP=1)
	@packaging/deps test
	$(AS_ROOT) $(if $(KEEP),KEEP=$(KEEP)) CARGO_HOME="$${CARGO_HOME:-$$HOME/.cargo}" RUSTUP_HOME="$${RUSTUP_HOME:-$$HOME/.rustup}" \
	    FRESH_COMMANDS='$(FRESH_COMMANDS)' $(RUN) tests/fresh $(SUITES)

# The same for some clouds or modules: tests/record-check NAME.
record-check: root deps ## compare the stored results of upstream with those of the packaged cloud-init (root, 30 min)
	$(AS_ROOT) CARGO='$(CARGO)' RUN='$(RUN)' tests/record-check

nova-check: ## compare the stored seeds of OpenStack's nova with those of the newest one (5 min)
	$(RUN) tests/nova-check

# POINTS of each kind per stage; 300 take 50 minutes.
POINTS ?= 300
torture: FIRSTLIGHT_POINTS = $(POINTS)
torture: root release ## kill every stage and fail its system calls at POINTS= points (root, 50 min)
	CARGO_TARGET_$(HOST)_RUNNER='$(AS_ROOT)' $(RUN) $(CARGO) test --no-fail-fast -p tests -j $(JOBS) \
	    --test whole -- --include-ignored kill:: inject::

# With and without the packages that images leave out.
roots: FIRSTLIGHT_ROOTS = all
roots: root deb ## boot the smallest root of every suite (root, 5 min)
	CARGO_TARGET_$(HOST)_RUNNER='$(AS_ROOT)' $(RUN) $(CARGO) test --no-fail-fast -p tests -j $(JOBS) \
	    --test whole -- --include-ignored minimal_roots::

# TARGET is a file of tests/fuzz/targets or generator/fuzz/fuzz_targets; without it they are listed.
SECONDS ?= 60
fuzz: ## fuzz a parser, with the stable compiler (TARGET= SECONDS=)
	@$(if $(TARGET),TARGET= packaging/deps fuzz)
	@RUN='$(RUN)' CARGO='$(CARGO)' JOBS='$(JOBS)' tests/fuzz/run '$(TARGET)' '$(SECONDS)'

fuzz-all: ## fuzz every parser for 10 seconds
	@packaging/deps fuzz
	@RUN='$(RUN)' CARGO='$(CARGO)' JOBS='$(JOBS)' tests/fuzz/run all 10

bench: deps release ## compare speed, memory and size with the packaged cloud-init, and speed with systemd-imds (root, 20 min)
	@missed=0; for name in bench bench-network bench-metadata bench-imds; do BIN=$(BIN) tests/$$name.sh || missed=1; done; exit $$missed

clean: ## remove build/ and target/
	rm -rf build
	$(CARGO) clean
