//! Privileges that cannot be dropped: the program then reads nothing. strace injects the kernel's errors.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Write as _;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cloud-init-tls");

/// Returns the exit code, standard error, and the system calls.
fn run(inject: Option<&str>, in_namespace: bool) -> (Option<i32>, String, String) {
    let trace = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "trace-{}-{}",
        std::process::id(),
        inject.unwrap_or("none").replace(':', "-")
    ));
    let mut command = Command::new(if in_namespace { "unshare" } else { "strace" });
    if in_namespace {
        command.args(["--user", "--map-root-user", "strace"]);
    }
    command.arg("-o").arg(&trace).args(["-e", "trace=read,recvfrom,setuid,setgid,setgroups,prctl"]);
    if let Some(inject) = inject {
        command.args(["-e", &format!("inject={inject}")]);
    }
    command.arg(PROGRAM).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("strace is missing: {e}"));
    let _ = child.stdin.take().unwrap().write_all(b"name h\nnonsense\n\n");
    let done = child.wait_with_output().unwrap();
    let calls = std::fs::read_to_string(&trace).unwrap();
    let _ = std::fs::remove_file(&trace);
    (done.status.code(), String::from_utf8_lossy(&done.stderr).trim().to_string(), calls)
}

fn reads(calls: &str) -> bool {
    // Its copy of standard input is not number 0.
    calls
        .lines()
        .any(|line| (line.starts_with("read(") || line.starts_with("recvfrom(")) && line.contains("\"n\""))
}

#[test]
fn refuses_to_run_with_privileges() {
    let is_root = nix::unistd::geteuid().is_root();
    let refused = |inject: &str, what: &str| {
        let (code, stderr, calls) = run(Some(inject), !is_root);
        assert_eq!(code, Some(2), "{inject}: {stderr}\n{calls}");
        assert!(stderr.contains("cannot drop privileges (") && stderr.contains(what), "{inject}: {stderr}");
        assert!(!reads(&calls), "{inject}: it read\n{calls}");
    };
    refused("prctl:error=EINVAL", "no_new_privs");
    if is_root {
        refused("setuid:error=EPERM", "setuid");
        refused("setuid:error=EINVAL", "setuid");
        refused("setgid:error=EPERM", "setgid");
        refused("setgroups:error=EPERM", "setgroups");
        // A call that reports success without an effect.
        refused("setuid:retval=0", "setuid");
    } else {
        // In a namespace with a single user the kernel itself refuses some of the calls.
        refused("setuid:error=EPERM", "setgroups");
        refused("setuid:retval=0", "setgroups");
    }
}

/// Without injected errors it reads the request and reports that it is invalid; in a namespace with a single user too.
#[test]
fn runs_after_dropping_privileges() {
    for in_namespace in [false, true] {
        let (code, stderr, calls) = run(None, in_namespace);
        assert_eq!((code, reads(&calls)), (Some(1), true), "{stderr}\n{calls}");
        assert!(stderr.ends_with("invalid request"), "{stderr}");
    }
}
