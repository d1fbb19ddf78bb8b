//! A command of a shell's start files that ends each login.

use system::{System, User};

/// Text after which a scan by lines is uncertain: here-documents, early returns, and functions or aliases named `exit`.
const UNCLEAR: &str = "<<|return|exit(|exit (|alias exit";

/// Returns the line that ends each login of a user, and why. Only a command that certainly runs counts.
pub fn refusal(sys: &System, account: &User) -> Option<(String, String)> {
    let (top, home) = ("/etc/profile.d", account.home.trim_end_matches('/'));
    let own = match account.shell.rsplit('/').next() {
        Some("bash") => &[".bash_profile", ".bash_login", ".profile"][..],
        Some("sh" | "dash") => &[".profile"],
        _ => return None,
    };
    let mut files = sys.list(top).unwrap_or_default();
    files.retain(|name| name.ends_with(".sh"));
    sort::sort(&mut files);
    let mut files: Vec<String> = files.iter().map(|name| format!("{top}/{name}")).collect();
    if !sys.read_text("/etc/profile").is_ok_and(|text| text.contains("profile.d")) {
        files.clear();
    }
    files.insert(0, "/etc/profile".into());
    // The shell reads the first one.
    files.extend(own.iter().map(|name| format!("{home}/{name}")).find(|path| sys.exists(path)));
    // Those files read them.
    files.extend(
        ["/etc/bash.bashrc".to_string(), format!("{home}/.bashrc")]
            .into_iter()
            .filter(|_| account.shell.ends_with("/bash")),
    );
    let line = |file: &String| Some(format!("{file}, line {}", exit(&sys.read_text(file).ok()?)?));
    Some((files.iter().find_map(line)?, "this exit ends each login".into()))
}

/// Returns the number of the first line that is an `exit` outside of every condition, function and subshell.
fn exit(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split(" #").next().unwrap_or_default().trim();
        let mut words = line.split_whitespace();
        if depth == 0
            && words.next() == Some("exit")
            && words.all(|word| word.chars().all(|c| c.is_ascii_digit()))
        {
            return Some(number);
        }
        if line.starts_with('#') {
            continue;
        }
        let count = |mark: char| line.matches(mark).count();
        // A string or a command may go on in the next line.
        if UNCLEAR.split('|').any(|part| line.contains(part))
            || line.ends_with(['\\', '&', '|'])
            || ['"', '\'', '`'].iter().any(|quote| count(*quote) % 2 != 0)
        {
            return None;
        }
        depth += i32::from(count('(') > count(')'));
        for command in line.split(';') {
            let mut words = command.split_whitespace().peekable();
            depth -=
                i32::from(words.peek().is_some_and(|word| ["fi", "esac", "done", "}", ")"].contains(word)));
            depth += words.filter(|word| ["if", "case", "do", "{"].contains(word)).count() as i32;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_that_certainly_runs_is_found() {
        for (text, expected) in [
            ("exit", Some(1)),
            ("# exit\nx=1\n  exit 1 # done\n", Some(3)),
            (
                "if a; then\n b\nfi\nfor i in a; do b; done\ncase $- in *i*) ;; esac\nf() {\n exit\n}\nexit 0\n",
                Some(9),
            ),
            ("(\nexit\n)\nexit\n", Some(4)),
            ("if a; then\n exit\nfi\n", None),
            ("if a; then\n echo fi\n exit\nfi\n", None),
            ("[ -n \"$PS1\" ] || return\nexit\n", None),
            ("case $- in\n*i*)\n;;\n*)\nexit\n;;\nesac\n", None),
            ("a ||\nexit\n", None),
            ("a && \\\nexit\n", None),
            ("cat <<E\nexit\nE\n", None),
            ("exit() {\n:\n}\nexit\n", None),
            ("echo \"\nexit\n\"\n", None),
            ("x=$(\nexit\n)\n", None),
            ("exit_later=1\n[ -z \"$x\" ] || exit\nexit &\n", None),
        ] {
            assert_eq!(exit(text), expected, "{text}");
        }
    }

    #[test]
    fn the_start_files_of_the_shell_are_read() {
        let root = scratch::TempDir::new();
        let sys = System::new(root.display().to_string());
        root.put("home/amy/.profile", "exit\n");
        root.put("etc/profile", "for i in /etc/profile.d/*.sh; do\n. $i\ndone\n");
        root.put("etc/profile.d/own.csh", "exit\n");
        for (put, shell, expected) in [
            ("", "/bin/zsh", None),
            ("", "/bin/sh", Some("/home/amy/.profile, line 1")),
            ("home/amy/.bash_profile", "/bin/bash", None),
            ("", "/bin/sh", Some("/home/amy/.profile, line 1")),
            ("home/amy/.bashrc", "/bin/bash", Some("/home/amy/.bashrc, line 2")),
            ("etc/profile.d/own.sh", "/bin/bash", Some("/etc/profile.d/own.sh, line 2")),
        ] {
            if !put.is_empty() {
                root.put(put, if put.ends_with("profile") { "" } else { "\nexit 1\n" });
            }
            let accounts = system::parse_passwd(&format!("amy:x:1000:1000::/home/amy:{shell}\n"));
            let found = refusal(&sys, &accounts[0]).map(|(at, _)| at);
            assert_eq!(found.as_deref(), expected, "{shell}");
        }
    }
}
