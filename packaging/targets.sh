# targets.sh - the architectures that the programs are built for on another machine, and the compilers. Sourced by
# packaging/build, packaging/deps, packaging/musl, tests/files.sh and tests/architectures, in the top directory.

# Those of `make architectures`. s390x is big-endian and has no musl in Rust, armv7 has 32 bits.
# shellcheck disable=SC2034 # for the scripts that source this
architectures='aarch64-unknown-linux-musl s390x-unknown-linux-gnu riscv64gc-unknown-linux-gnu
    powerpc64le-unknown-linux-gnu armv7-unknown-linux-gnueabihf'

# own_musl: prints the musl target of this machine's architecture
own_musl() { rustc -vV | sed -n 's/^host: \(.*\)-[a-z]*-linux-.*/\1-unknown-linux-musl/p'; }

# cross_tools TRIPLE: for a Rust target sets cross_gnu and cross_debian to GNU's and Debian's name of the architecture,
# cross_arch to that of Rust's cfg(target_arch), cross_cc to GCC's cross compiler and cross_qemu to the emulator of its
# programs. All are empty for this machine's own architecture.
cross_tools() {
    cross_cc='' cross_qemu='' cross_arch='' cross_gnu='' cross_debian=''
    case $1 in "$(rustc -vV | sed -n 's/^host: \([^-]*\)-.*/\1/p')"-*) return ;; esac
    case $1 in
        x86_64-*) cross_arch=x86_64 cross_debian=amd64 cross_gnu=x86_64-linux-gnu cross_qemu=qemu-x86_64 ;;
        aarch64-*) cross_arch=aarch64 cross_debian=arm64 cross_gnu=aarch64-linux-gnu cross_qemu=qemu-aarch64 ;;
        armv7-*hf) cross_arch=arm cross_debian=armhf cross_gnu=arm-linux-gnueabihf cross_qemu=qemu-arm ;;
        powerpc64le-*) cross_arch=powerpc64 cross_debian=ppc64el cross_gnu=powerpc64le-linux-gnu cross_qemu=qemu-ppc64le ;;
        riscv64gc-*) cross_arch=riscv64 cross_debian=riscv64 cross_gnu=riscv64-linux-gnu cross_qemu=qemu-riscv64 ;;
        s390x-*) cross_arch=s390x cross_debian=s390x cross_gnu=s390x-linux-gnu cross_qemu=qemu-s390x ;;
        # For any other, the user says how to link (CARGO_TARGET_..._LINKER, CC_..., BLKID_LIB_DIR).
        *) return ;;
    esac
    cross_cc=$cross_gnu-gcc
    # Debian's statically linked emulators had another name until trixie.
    ! command -v "$cross_qemu-static" >/dev/null || cross_qemu=$cross_qemu-static
}

# cross_environment TRIPLE: as cross_tools, and exports what cargo needs to build for the target, if it is not set already
cross_environment() {
    cross_tools "$1"
    [ -n "$cross_cc" ] || return 0
    cross_name=$(echo "$1" | tr - _)
    case $1 in *-musl*) cross_compiler=$PWD/build/musl/$cross_arch/musl-gcc ;; *) cross_compiler=$cross_cc ;; esac
    cross_export "CARGO_TARGET_$(echo "$cross_name" | tr a-z A-Z)_LINKER" "$cross_cc"
    cross_export "AR_$cross_name" "$cross_gnu-ar"
    cross_export "CC_$cross_name" "$cross_compiler"
}
cross_export() { eval "export $1=\"\${$1:-$2}\""; }

# has_musl_headers COMPILER...: the C compiler has a C library's headers, and they are not those of glibc
has_musl_headers() {
    printf '#include <stdlib.h>\n#ifdef __GLIBC__\n#error glibc\n#endif\n' | "$@" -E -x c - >/dev/null 2>&1
}
