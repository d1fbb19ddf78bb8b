//! `cloud-init-per`. Results are those of cloud-init 26.2 for the same words, input and semaphores.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use scratch::TempDir;

/// Runs `cloud-init-per` with its state in `state`, in a mount namespace of its own.
fn run(state: &TempDir, words: &[&str], input: &str) -> (i32, String) {
    let program = state.join("cloud-init-per");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_cloud-init"), &program).unwrap();
    }
    let mount = r#"mount --bind "$0/var/lib" /var/lib && cd "$0" && exec "$0/cloud-init-per" "$@""#;
    let mut child = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", mount])
        .arg(&**state)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A command that does not read its input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let done = child.wait_with_output().unwrap();
    (done.status.code().unwrap(), String::from_utf8(done.stdout).unwrap())
}

fn machine() -> TempDir {
    let state = TempDir::new();
    state.put("var/lib/cloud/sem/x", "");
    state
}

#[test]
fn cloud_init_per_runs_what_a_shell_runs() {
    if !scratch::is_root("cloud_init_per_runs_what_a_shell_runs") {
        return;
    }
    let state = machine();
    state.put("script", "echo script $0 $1\n");
    state.put("plain", "echo never\n");
    fs::set_permissions(state.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    for (words, input, expected) in [
        // Input, also from a here-document.
        (&["once", "input", "cat"][..], "a\nb\n", (0, "a\nb\n")),
        (&["once", "here", "sh", "-s", "x y"], "echo \"$1\"; exit 3\n", (3, "x y\n")),
        // A script without #!, a script for the shell itself, and other builtins.
        (&["once", "script", "./script", "1"], "", (0, "script ./script 1\n")),
        (&["once", "sourced", ".", "./plain"], "", (0, "never\n")),
        (&["once", "eval", "eval", "echo $((1 + 1)); false"], "", (1, "2\n")),
        (&["once", "exit", "exit", "3"], "", (3, "")),
        (&["once", "exec", "exec", "echo", "x"], "", (0, "x\n")),
        // Words are not expanded by the shell.
        (&["once", "words", "echo", "$HOME;", "*", ""], "", (0, "$HOME; * \n")),
        (&["once", "mode", "./plain"], "", (126, "")),
        (&["once", "missing", "./missing"], "", (127, "")),
    ] {
        assert_eq!(run(&state, words, input), (expected.0, expected.1.into()), "{words:?}");
        let semaphore =
            fs::read_to_string(state.join(format!("var/lib/cloud/sem/bootper.{}.once", words[1])));
        assert!(semaphore.unwrap().starts_with(&format!("{}\t", expected.0)), "{words:?}");
        assert_eq!(run(&state, words, input), (0, String::new()), "{words:?} ran twice");
    }
}

#[test]
fn cloud_init_per_finds_a_semaphore_with_dashes() {
    if !scratch::is_root("cloud_init_per_finds_a_semaphore_with_dashes") {
        return;
    }
    for (name, old, new) in [
        ("a-b", "a-b", "a_b"),
        ("a_b", "a-b", "a_b"),
        ("a-b_c", "a-b-c", "a_b_c"),
        ("a-b_c", "a-b_c", "a_b_c"),
    ] {
        let state = machine();
        let semaphore = |name: &str| format!("var/lib/cloud/sem/bootper.{name}.once");
        state.put(&semaphore(old), "0\t1\n");
        assert_eq!(run(&state, &["once", name, "echo", "again"], ""), (0, String::new()), "{name} {old}");
        assert!(state.join(semaphore(new)).exists() && !state.join(semaphore(old)).exists(), "{name} {old}");
    }
}
