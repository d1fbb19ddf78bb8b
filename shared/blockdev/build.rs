//! Finds a libblkid.a for the target's C library and links it in, without pkg-config and libclang: the distribution's for
//! glibc, and for musl the one that packaging/libblkid builds. The library in BLKID_LIB_DIR is not checked: the packager is
//! responsible that it was built for the target's C library.

use std::path::{Path, PathBuf};
use std::process::exit;

fn main() {
    println!("cargo:rerun-if-env-changed=BLKID_LIB_DIR");
    let out = PathBuf::from(variable("OUT_DIR"));
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    let musl = variable("CARGO_CFG_TARGET_ENV") == "musl";

    let library_dirs = library_dirs(&arch, musl);
    let Some(library) = library_dirs.iter().map(|dir| dir.join("libblkid.a")).find(|path| path.is_file())
    else {
        // Runs this script again once the library exists.
        for dir in library_dirs {
            println!("cargo:rerun-if-changed={}", dir.join("libblkid.a").display());
        }
        fail(&format!(
            "libblkid.a for {} not found: run packaging/deps, build it with CC={} packaging/libblkid {}, or set \
             BLKID_LIB_DIR to its directory",
            if musl { "musl" } else { "glibc" },
            if musl { "musl-gcc" } else { "cc" },
            if musl { format!("build/libblkid/{arch}-linux-musl") } else { "build/libblkid".into() },
        ));
    };
    println!("cargo:rerun-if-changed={}", library.display());

    // A separate directory: that of the library also has glibc's libc.a, which a musl link must not find.
    if let Err(e) = std::fs::copy(&library, out.join("libblkid.a")) {
        fail(&format!("copying {}: {e}", library.display()));
    }
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=blkid");
}

/// Returns the directories in which distributions install static libraries for a machine.
fn library_dirs(arch: &str, musl: bool) -> Vec<PathBuf> {
    if let Some(dir) = std::env::var_os("BLKID_LIB_DIR") {
        return vec![dir.into()];
    }
    let triple = match arch {
        "x86" => "i386-linux-gnu".to_string(),
        "arm" => "arm-linux-gnueabihf".to_string(),
        "powerpc64" => "powerpc64le-linux-gnu".to_string(),
        "riscv64" | "riscv64gc" => "riscv64-linux-gnu".to_string(),
        other => format!("{other}-linux-gnu"),
    };
    let built = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../build/libblkid");
    // Directories without the machine in their name have libraries of the build machine only.
    let native = variable("HOST").starts_with(&format!("{arch}-"));
    let mut library_dirs = Vec::new();
    if musl {
        let name = format!("{arch}-linux-musl");
        library_dirs.extend([Path::new("/usr/lib").join(&name), built.join(&name)]);
    } else {
        library_dirs.extend([Path::new("/usr/lib").join(&triple), built.join(&triple)]);
    }
    if native && (!musl || Path::new("/etc/alpine-release").exists()) {
        library_dirs.extend(["/usr/lib64", "/usr/lib", "/lib64", "/lib"].map(PathBuf::from));
        library_dirs.push(built);
    }
    library_dirs
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    exit(1);
}
