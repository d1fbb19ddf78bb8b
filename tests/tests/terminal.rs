//! What commands write to a terminal and to nothing else: the live line of `status --wait`, colours of `schema`.

use std::process::Command;

use tests::{Sandbox, binaries, on_terminal};

/// Begins a line again, and erases it.
const ERASE: &str = "\r\x1b[K";

fn cloud_init(sandbox: &Sandbox, term: Option<&str>, words: &[&str]) -> Command {
    let mut command = Command::new(binaries().join("cloud-init"));
    command.arg("--root").arg(&sandbox.root).args(words).env_remove("NO_COLOR").env_remove("TERM");
    command.envs(term.map(|term| ("TERM", term)));
    command
}

/// Boots, and runs `status --wait` on a terminal of each kind while the final stage works.
#[test]
fn status_wait_has_a_live_line_on_a_terminal() {
    let sandbox = Sandbox::with_user_data("live-line", "#cloud-config\nruncmd: [\"sleep 6\"]\n");
    std::thread::scope(|scope| {
        let boot = scope.spawn(|| sandbox.boot());
        scratch::wait_until(|| sandbox.file("/run/cloud-init/activity").is_some());
        let wait = |term| {
            let sandbox = &sandbox;
            scope.spawn(move || on_terminal(cloud_init(sandbox, term, &["status", "--wait"])))
        };
        let [live, dumb, none] = [Some("xterm"), Some("dumb"), None].map(wait);
        let json = scope.spawn(|| {
            let words = ["status", "--wait", "--format", "json"];
            on_terminal(cloud_init(&sandbox, Some("xterm"), &words))
        });

        let (code, text) = live.join().expect("status");
        assert_eq!(code, Some(0), "{text:?}");
        let mut shown: Vec<&str> = text.split(ERASE).collect();
        // The line is erased before the result.
        assert_eq!(shown.pop(), Some("status: done\n"), "{text:?}");
        assert_eq!(shown.remove(0), "", "{text:?}");
        assert!(shown.len() >= 3, "the line changes with the seconds: {text:?}");
        for line in &shown {
            assert!(line.starts_with("running (") && line.chars().count() < 80, "{text:?}");
            assert!(!line.contains(['\n', '\x1b']), "{text:?}");
        }
        let wanted = ": modules-final: running scripts_user ";
        assert!(shown.iter().any(|line| line.contains(wanted)), "{text:?}");

        for plain in [dumb, none] {
            let (code, text) = plain.join().expect("status");
            assert_eq!(code, Some(0), "{text:?}");
            let dots = text.strip_suffix("status: done\n").unwrap_or_default();
            assert!(dots.len() > 4 && dots.chars().all(|c| c == '.'), "{text:?}");
        }
        let (code, text) = json.join().expect("status");
        assert!(code == Some(0) && text.starts_with("{\n") && !text.contains('\x1b'), "{text:?}");
        boot.join().expect("the boot");
    });
}

#[test]
fn schema_is_coloured_only_on_a_terminal() {
    let sandbox = Sandbox::new("colours");
    let file = sandbox.path("/root/user-data");
    tests::write(&file, "#cloud-config\nhostnam: s3cr3t\n");
    let file = file.display().to_string();
    let schema = |term: Option<&str>, no_colour: Option<&str>| {
        let mut command = cloud_init(&sandbox, term, &["schema", "-c", &file]);
        command.envs(no_colour.map(|value| ("NO_COLOR", value)));
        on_terminal(command)
    };
    let plain = format!(
        "{file}:2:1: error: hostnam: unknown key; did you mean 'hostname'?\n 2 | hostnam: s3cr3t\n   | ^^^^^^^\n"
    );
    let (code, coloured) = schema(Some("xterm"), None);
    assert_eq!(code, Some(1));
    assert!(coloured.contains("\x1b[1;31merror\x1b[0m: hostnam: unknown key"), "{coloured:?}");
    assert!(coloured.contains("   | \x1b[1;31m^^^^^^^\x1b[0m\n"), "{coloured:?}");
    // An empty NO_COLOR has no effect.
    assert_eq!(schema(Some("xterm"), Some("")), (code, coloured));
    for (term, no_colour) in [(Some("xterm"), Some("1")), (Some("dumb"), None), (None, None)] {
        let (code, text) = schema(term, no_colour);
        assert_eq!(code, Some(1));
        assert!(!text.contains('\x1b') && text.contains(&plain), "{term:?} {no_colour:?}: {text:?}");
    }
    // Not a terminal: no colour and no value, whatever TERM is.
    let done = cloud_init(&sandbox, Some("xterm"), &["schema", "-c", &file]).output().expect("cloud-init");
    let text = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(!text.contains('\x1b') && !text.contains("s3cr3t"), "{text:?}");
    assert!(text.contains(" 2 | hostnam: …\n"), "{text:?}");
}
