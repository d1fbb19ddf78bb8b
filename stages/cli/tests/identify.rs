//! `query --identify` runs ds-identify. In a test program of its own: a program that was just written cannot be started while
//! a child of another thread has it open.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use scratch::TempDir;

/// `query --identify` runs ds-identify, from the directory of the program in a build and else from LIBEXECDIR.
#[test]
fn query_identify_runs_ds_identify() {
    let top = TempDir::new();
    let program = top.join("cloud-init");
    scratch::copy_program(env!("CARGO_BIN_EXE_cloud-init"), &program);
    let asked = top.join("ds-identify");
    std::fs::write(&asked, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    std::fs::set_permissions(&asked, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir(top.join("image")).unwrap();
    let real = std::fs::canonicalize(&top).unwrap().display().to_string();
    for (words, code, expected) in [
        ("query --identify", 7, "--explain\n"),
        ("query --identify --format=json", 7, "--explain --format json\n"),
        ("--root image/../image/ query --identify -f text", 7, "--explain --root TOP/image --format text\n"),
        ("--root nowhere query --identify", 2, ""),
        ("query --identify --format yaml", 2, ""),
    ] {
        let output = Command::new(&program).args(words.split(' ')).current_dir(&top).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!((output.status.code(), text), (Some(code), expected.replace("TOP", &real)), "{words}");
    }
}
