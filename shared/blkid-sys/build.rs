//! Finds the machine's libblkid.a and links it in, without pkg-config and libclang. Distributions build it
//! against glibc; for a musl target a small shim adds the few symbols that only glibc has.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    for name in ["BLKID_LIB_DIR", "CC", "AR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=src/glibc_shim.c");
    let out = PathBuf::from(variable("OUT_DIR"));
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    let musl = variable("CARGO_CFG_TARGET_ENV") == "musl";

    let library_dirs = library_dirs(&arch, musl);
    let Some(library) = library_dirs.iter().map(|dir| dir.join("libblkid.a")).find(|path| path.is_file())
    else {
        fail(
            "libblkid.a not found: install libblkid-dev (Debian, Ubuntu), build it with packaging/libblkid \
             build/libblkid (elsewhere), or set BLKID_LIB_DIR to its directory",
        );
    };
    println!("cargo:rerun-if-changed={}", library.display());

    // A separate directory: that of the library also has glibc's libc.a, which a musl link must not find.
    if let Err(e) = std::fs::copy(&library, out.join("libblkid.a")) {
        fail(&format!("copying {}: {e}", library.display()));
    }
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=blkid");

    let from_musl = library.parent().is_some_and(|dir| dir.ends_with(format!("{arch}-linux-musl")));
    if musl && !from_musl && !is_musl_machine() {
        if variable("CARGO_CFG_TARGET_POINTER_WIDTH") != "64" {
            // On these machines the two C libraries disagree on the size of time_t, and therefore on struct stat.
            fail("a 32-bit musl build needs a libblkid.a built for musl: set BLKID_LIB_DIR");
        }
        shim(&out);
        println!("cargo:rustc-link-lib=static=blkid_glibc_shim");
    }
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
    let mut library_dirs = Vec::new();
    if musl {
        library_dirs.push(Path::new("/usr/lib").join(format!("{arch}-linux-musl")));
    }
    library_dirs.push(Path::new("/usr/lib").join(triple));
    // Directories without the machine in their name have libraries of the build machine only.
    if variable("HOST").starts_with(&format!("{arch}-")) {
        library_dirs.extend(["/usr/lib64", "/usr/lib", "/lib64", "/lib"].map(PathBuf::from));
        // The directory of packaging/libblkid.
        library_dirs.push(Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../build/libblkid"));
    }
    library_dirs
}

/// Returns whether this is Alpine or a similar system, whose libblkid.a is built for musl.
fn is_musl_machine() -> bool {
    std::env::var_os("BLKID_LIB_DIR").is_none() && Path::new("/etc/alpine-release").exists()
}

/// Compiles the shim. It includes no header, so that any C compiler for the machine suffices.
fn shim(out: &Path) {
    let target = variable("TARGET");
    let env_tool = |what: &str| {
        let own = format!("{what}_{}", target.replace('-', "_"));
        println!("cargo:rerun-if-env-changed={own}");
        std::env::var(own).or_else(|_| std::env::var(what)).ok().filter(|v| !v.is_empty())
    };
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    let native = variable("HOST").starts_with(&format!("{arch}-"));
    let cross = format!("{arch}-linux-gnu-gcc");
    let cc = env_tool("CC").unwrap_or(if native { "cc".into() } else { cross });
    let ar = env_tool("AR").unwrap_or("ar".into());
    let object = out.join("glibc_shim.o");
    let flags = ["-c", "-Os", "-ffreestanding", "-fPIC", "-fno-stack-protector", "-Wall", "-Werror"];
    let sections = ["-ffunction-sections", "-U_FORTIFY_SOURCE"];
    run(Command::new(&cc).args(flags).args(sections).arg("src/glibc_shim.c").arg("-o").arg(&object));
    let archive = out.join("libblkid_glibc_shim.a");
    let _ = std::fs::remove_file(&archive);
    run(Command::new(&ar).arg("crs").arg(&archive).arg(&object));
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?}: {status}")),
        Err(e) => {
            fail(&format!("{}: {e}: install a C compiler and binutils", command.get_program().display()))
        }
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    exit(1);
}
