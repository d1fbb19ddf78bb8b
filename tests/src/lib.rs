//! The library of the integration tests: machines to boot, the facts collected after a boot, the binaries under test.
//!
//! The scripts in `tests/lib` set up mounts, namespaces and images; this library calls them and reads their results.
//! `FIRSTLIGHT_REFERENCE=1` replaces the package under test with Debian's cloud-init. The same assertions must hold for it;
//! the tests must not demand more than users have today.
//!
//! The functions are for tests: on an error they end the test with a panic ([`fail`]) instead of returning it.
#![warn(missing_docs)]

mod book;
mod case;
mod check;
mod cloud;
mod disks;
mod example_machines;
mod explain;
mod facts;
mod instance_data;
mod intact;
mod machine;
mod media;
mod module_case;
mod net;
mod power;
mod reach;
mod repeats;
mod sandbox;
mod secrets;
mod terminal;
/// Kills and injected errors at many points of every stage.
pub mod torture;
mod upstream;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use book::{Block, Page};
pub use case::Case;
pub use check::{first_boot, later_boot, new_instance, second_boot};
pub use cloud::{Cloud, MAC, password_of, record_path};
pub use example_machines::EXAMPLE_MACHINES;
pub use explain::{cloud_count, explained, install_explain};
pub use facts::Facts;
pub use instance_data::{hide_secrets, instance_data, without_program_specific};
pub use intact::{assert_intact, half_written};
pub use machine::Machine;
pub use media::{add_media_cases, assert_media_case};
pub use module_case::{CaseMachines, ModuleCase};
pub use net::{Net, RunResult};
pub use power::{FileSystem, Mounted, OnDisk, Recording};
pub use reach::Reach;
pub use sandbox::{Boot, STAGES, Sandbox};
pub use secrets::{SECRET_PREFIX, assert_no_leaks, lines_with_secrets, plant_secrets};
pub use terminal::on_terminal;
pub use upstream::Upstream;

/// Returns the directory `tests` of the source tree.
pub fn tests_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the directory of the binaries under test: `BIN`, or that of `make programs`.
pub fn binaries() -> PathBuf {
    let dir = std::env::var_os("BIN").map_or_else(|| tests_dir().join("../build/test/bin"), PathBuf::from);
    assert!(
        dir.join("cloud-init-generator").exists(),
        "no binaries in {}: run `make programs`",
        dir.display()
    );
    dir
}

/// Returns the path of the package under test: `FIRSTLIGHT_DEB`, or the one beside the directory of the binaries.
pub fn package() -> PathBuf {
    if let Some(path) = std::env::var_os("FIRSTLIGHT_DEB") {
        return PathBuf::from(path);
    }
    let build = binaries().join("..");
    let mut found = std::fs::read_dir(&build).into_iter().flatten().flatten().map(|e| e.path());
    let is_package = |p: &PathBuf| {
        let name = p.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("firstlight_") && name.ends_with(".deb")
    };
    let package = found.find(is_package);
    package.unwrap_or_else(|| fail(&format!("no package in {}: run `make programs`", build.display())))
}

/// Returns whether Debian's cloud-init is under test, to verify the tests themselves.
pub fn testing_upstream() -> bool {
    std::env::var_os("FIRSTLIGHT_REFERENCE").is_some()
}

/// Returns the Debian release of the machines under test.
pub fn suite() -> String {
    std::env::var("FIRSTLIGHT_SUITE").unwrap_or_else(|_| "trixie".into())
}

/// Reports that a test cannot run on this host. `make test` counts it as not tried, not as passed.
pub fn not_tried(test: &str, reason: &str) {
    // Written directly, because the test harness hides what a passing test prints with macros.
    let _ = writeln!(std::io::stderr(), "not tried: test {test}: {reason}");
}

/// Fails the test with a message.
#[allow(clippy::panic)]
pub fn fail(message: &str) -> ! {
    panic!("{message}")
}

/// Runs a script of `tests/lib` and returns its output. A failure of the script fails the test.
pub fn script(name: &str, args: &[&str]) -> String {
    script_with(&[], name, args)
}

/// As [`script`], with additional environment variables.
pub fn script_with(variables: &[(&str, &str)], name: &str, args: &[&str]) -> String {
    let path = tests_dir().join("lib").join(name);
    let mut command = Command::new(&path);
    command.envs(variables.iter().copied());
    let done = command.args(args).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let done = done.unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if !done.status.success() {
        fail(&format!("{name} {}: {}\n{text}", args.join(" "), done.status));
    }
    text
}

/// Creates a directory in the cache that belongs to this test. Its name is unique: a failed test keeps its directory, and a
/// later one may have the same process ID.
pub(crate) fn work_dir(name: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let cache = std::env::var_os("FIRSTLIGHT_CACHE")
        .map_or_else(|| "/var/tmp/firstlight-cache".into(), PathBuf::from);
    let parent = cache.join("run");
    create_dir_all(&parent);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("{name}-{}-{number}", std::process::id()));
        match std::fs::create_dir(&dir) {
            Ok(()) => return dir,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => fail(&format!("{}: {e}", dir.display())),
        }
    }
}

pub(crate) fn create_dir_all(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap_or_else(|e| fail(&format!("{}: {e}", dir.display())));
}

/// Writes a file and creates its parent directories.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    if let Some(parent) = path.parent() {
        create_dir_all(parent);
    }
    std::fs::write(path, bytes).unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
}

/// Removes a test's directory, unless `FIRSTLIGHT_KEEP` is set or the test failed.
pub(crate) fn clean_up(dir: &Path) {
    if std::env::var_os("FIRSTLIGHT_KEEP").is_some() || std::thread::panicking() {
        eprintln!("kept: {}", dir.display());
    } else {
        let _ = std::fs::remove_dir_all(dir);
    }
}
