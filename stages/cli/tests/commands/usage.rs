//! Usage errors, `--help` and `--version`, and the arguments of `cloud-init-per`.

use crate::prepared::run_as;

#[test]
fn usage_errors_exit_with_status_2() {
    for (name, words, message) in [
        ("cloud-init", "", "a subcommand is required"),
        ("cloud-init", "--all-stages", "argument --all-stages: not supported"),
        ("cloud-init", "--debug", "a subcommand is required"),
        ("cloud-init", "status --what", "unrecognized arguments: --what"),
        ("cloud-init", "single", "the following arguments are required: --name/-n"),
        ("cloud-id", "--what", "unrecognized arguments: --what"),
    ] {
        let (code, out, err) = run_as(name, None, words);
        assert_eq!((code, out.as_str()), (2, ""), "{words}");
        assert!(err.starts_with(&format!("error: {message}")), "{words}: {err}");
        // Followed by the help of the command.
        assert!(err.contains("\n\nUsage: "), "{words}: {err}");
    }
    let (code, _, err) = run_as("cloud-init", None, "plan --debug");
    assert_eq!((code, err.contains("'--debug' goes before the command")), (2, true), "{err}");
    for words in ["--help", "status -h", "query --help"] {
        let (code, out, _) = run_as("cloud-init", None, words);
        assert_eq!((code, out.starts_with("Usage: ")), (0, true), "{words}: {out}");
    }
    // Each command accepts the option, which only the program's help describes.
    for (words, is_named) in [("plan --help", true), ("devel render --help", true), ("--help", false)] {
        let text = run_as("cloud-init", None, words).1;
        assert_eq!(text.contains("\nAlso --root DIR: see cloud-init --help.\n"), is_named, "{words}: {text}");
    }
    let version = run_as("/usr/bin/cloud-init", None, "--version");
    assert_eq!(
        version,
        (0, format!("/usr/bin/cloud-init 26.2 (Firstlight {})\n", env!("CARGO_PKG_VERSION")), String::new())
    );
}

#[test]
fn cloud_init_per_rejects_invalid_arguments() {
    let run = |words: &str| run_as("cloud-init-per", None, words);
    assert_eq!(run("-h").0, 0);
    for words in ["", "once", "once a"] {
        assert_eq!(run(words).0, 1, "{words}");
    }
    assert!(run("sometimes a true").2.contains("invalid frequency: sometimes"));
    assert!(run("once a/b true").2.contains("name cannot contain a /"));
    assert!(run("--root /x sometimes a true").2.contains("invalid frequency: sometimes"));
    // Options of the command are not options of cloud-init-per.
    assert!(run("sometimes a true --help").2.contains("invalid frequency"));
}

#[test]
fn a_trial_needs_a_file_and_root() {
    for (words, message) in [
        (&["try"][..], "error: try needs a FILE: user-data, or a file of a seed\n"),
        (&["try", "user-data"], "error: try needs root: it boots a container\n"),
    ] {
        assert_eq!(crate::common::run_unprivileged(words), (1, String::new(), message.to_string()));
    }
}
