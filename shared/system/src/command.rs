//! The description of a program to run: its argument vector (never a shell line, unless a user wrote one), limits and
//! output, and its text in logs and errors. `run.rs` runs it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use encoding::python::put_repr;
use encoding::shell;

use crate::http::redacted_urls;

/// The default time limit. Users' scripts set a longer one.
// Wait: everything | a program for which this page has no other limit | -
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// The destination of a program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// Returned in [`Output`].
    Capture,
    /// Sent to the output of the stage (journal, console, cloud-init-output.log).
    Inherit,
    /// Discarded, as by `/dev/null`.
    Null,
}

/// An argument. What logs and errors show of it is decided where it is added.
#[derive(Clone)]
struct Argument {
    value: OsString,
    /// The text in place of a secret value.
    shown: Option<String>,
}

impl Argument {
    fn plain(value: impl Into<OsString>) -> Argument {
        Argument { value: value.into(), shown: None }
    }

    /// Returns the argument for messages: a plain one with its URLs redacted.
    fn shown(&self) -> Cow<'_, str> {
        match &self.shown {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(redacted_urls(&self.value.to_string_lossy())),
        }
    }
}

impl std::fmt::Debug for Argument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.shown().fmt(f)
    }
}

/// The value of a secret argument in messages.
const REDACTED: &str = "REDACTED";

/// A program to run. By default it gets an empty standard input and this process's environment, its output is captured, it
/// is killed after five minutes, and every exit code but 0 is an error.
///
/// ```
/// use system::{Command, System};
///
/// let sys = System::new("/");
/// let output = sys.run(&Command::new(["cat"]).stdin("secret").redacted("cat (password)"))?;
/// assert_eq!(output.text(), "secret");
/// # Ok::<(), system::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Command {
    argv: Vec<Argument>,
    pub(crate) env: Vec<(String, OsString)>,
    pub(crate) stdin: Vec<u8>,
    pub(crate) directory: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) output: OutputMode,
    pub(crate) accepted: Vec<i32>,
    pub(crate) read_only: bool,
    redacted: Option<String>,
    pub(crate) program: Option<String>,
    pub(crate) kill_on_exit: bool,
    pub(crate) inherit_stdin: bool,
    pub(crate) stdin_is_file: bool,
}

/// The exit code of a program, and its output if that was captured: at most 16 MiB of each stream.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// The exit code; 128 + N if signal N killed the program, as in a shell.
    pub code: i32,
    /// The captured standard output.
    pub stdout: Vec<u8>,
    /// The captured standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Returns the captured standard output as text. Bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Command {
    /// Returns a command with this argument vector. A program name with a slash is a path below the root; other names are
    /// searched for in PATH.
    pub fn new<I, S>(argv: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: Into<OsString>,
    {
        Command {
            argv: argv.into_iter().map(Argument::plain).collect(),
            env: Vec::new(),
            stdin: Vec::new(),
            directory: None,
            timeout: DEFAULT_TIMEOUT,
            output: OutputMode::Capture,
            accepted: vec![0],
            read_only: false,
            redacted: None,
            program: None,
            kill_on_exit: false,
            inherit_stdin: false,
            stdin_is_file: false,
        }
    }

    /// Returns the command for a line of shell that a user wrote. The line may contain a secret: it is neither shown nor an
    /// argument, which all users can read.
    pub fn shell(line: &str) -> Command {
        const SCRIPT: &str = r#"line=$CLOUD_INIT_LINE; unset CLOUD_INIT_LINE; eval "$line""#;
        Command::new(["/bin/sh", "-c", SCRIPT]).env("CLOUD_INIT_LINE", line).redacted("/bin/sh -c REDACTED")
    }

    /// Appends an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Command {
        self.argv.push(Argument::plain(arg));
        self
    }

    /// Appends a secret argument, for a program that accepts the secret in no other way: other users can read it while the
    /// program runs. Only the `prefix` of the argument (`--password=`) is shown, and no standard error in errors.
    pub fn secret(mut self, prefix: &str, value: &str) -> Command {
        let shown = Some(format!("{prefix}{REDACTED}"));
        self.argv.push(Argument { value: format!("{prefix}{value}").into(), shown });
        self
    }

    /// Returns the command whose words a user wrote. Only the program's name and the names of long options are shown; a
    /// first word with a blank is a whole command line, and hidden.
    pub fn of_user<S: AsRef<str>>(words: &[S]) -> Command {
        let is_name = words.first().is_some_and(|word| !word.as_ref().contains(char::is_whitespace));
        let (program, args) = words.split_at(usize::from(is_name));
        Command::new(program.iter().map(AsRef::as_ref)).user_args(args)
    }

    /// Appends arguments that a user wrote, of which any may be a secret: only the names of long options are shown,
    /// which consist of letters, digits and hyphens.
    pub fn user_args<S: AsRef<str>>(self, words: impl IntoIterator<Item = S>) -> Command {
        let is_option = |word: &str| {
            word.starts_with("--") && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        words.into_iter().fold(self, |command, word| match word.as_ref().split_once('=') {
            Some((name, value)) if is_option(name) => command.secret(&format!("{name}="), value),
            None if is_option(word.as_ref()) => command.arg(word.as_ref()),
            _ => command.secret("", word.as_ref()),
        })
    }

    /// Returns the arguments as the program gets them; the first one is its name.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &OsStr> {
        self.argv.iter().map(|argument| argument.value.as_os_str())
    }

    /// Returns the name of the program for messages.
    pub(crate) fn shown_program(&self) -> Cow<'_, str> {
        self.argv.first().map(Argument::shown).unwrap_or_default()
    }

    /// Returns whether the command has a secret, which the program may repeat.
    pub(crate) fn has_secret(&self) -> bool {
        self.redacted.is_some() || self.argv.iter().any(|argument| argument.shown.is_some())
    }

    /// Adds an environment variable. NUL bytes, which an environment cannot contain, are removed from the value.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Command {
        let mut value = value.into().into_vec();
        value.retain(|byte| *byte != 0);
        self.env.push((name.to_string(), OsString::from_vec(value)));
        self
    }

    /// Sets the bytes that the program gets on standard input. Secrets are passed this way.
    pub fn stdin(self, bytes: impl Into<Vec<u8>>) -> Command {
        Command { stdin: bytes.into(), ..self }
    }

    /// Sets the bytes of the regular file that the program gets as standard input, and can open as `/dev/stdin`: for a
    /// secret that the program reads from no pipe. The file has no name that an interrupted stage could leave.
    pub fn stdin_file(mut self, bytes: impl Into<Vec<u8>>) -> Command {
        self.stdin_is_file = true;
        self.stdin(bytes)
    }

    /// Gives the program the standard input of this process. If that is a terminal, only a program in this process's group
    /// can read it ([`Command::kill_on_exit`]).
    pub fn inherit_stdin(self) -> Command {
        Command { inherit_stdin: true, ..self }
    }

    /// Sets the working directory, a path below the root. The default is `/`.
    pub fn current_dir(self, path: &str) -> Command {
        Command { directory: Some(path.to_string()), ..self }
    }

    /// Sets the time limit. The default is five minutes.
    pub fn timeout(self, time: Duration) -> Command {
        Command { timeout: time, ..self }
    }

    /// Sets the destination of the output. The default is [`OutputMode::Capture`].
    pub fn output(self, output: OutputMode) -> Command {
        Command { output, ..self }
    }

    /// Sets the exit codes that are not an error; 0 is one only if it is listed.
    pub fn accept(self, codes: &[i32]) -> Command {
        Command { accepted: codes.to_vec(), ..self }
    }

    /// Accepts all exit codes.
    pub fn accept_all(mut self) -> Command {
        self.accepted.clear();
        self
    }

    /// Marks the program as one that changes nothing, so that it runs in a dry run too.
    pub fn read_only(self) -> Command {
        Command { read_only: true, ..self }
    }

    /// Sets the program to start, if `argv[0]` is only the name that it gets.
    pub fn program(self, path: impl Into<String>) -> Command {
        Command { program: Some(path.into()), ..self }
    }

    /// Keeps the program in this process's group, so that Ctrl-C reaches it, and has the kernel terminate it when this
    /// process exits. By default it has a process group of its own.
    pub fn kill_on_exit(self) -> Command {
        Command { kill_on_exit: true, ..self }
    }

    /// Sets the text that logs and errors show instead of the arguments, for a command with a secret elsewhere. Errors then
    /// do not show the program's standard error either. URLs in the text are redacted.
    pub fn redacted(self, text: impl Into<String>) -> Command {
        Command { redacted: Some(redacted_urls(&text.into())), ..self }
    }

    /// Returns the argument vector as upstream logs it, which tools search logs for: `['ls', '-l']`.
    pub(crate) fn logged(&self) -> String {
        if let Some(redacted) = &self.redacted {
            return redacted.clone();
        }
        let mut text = String::from("[");
        for (i, word) in self.argv.iter().enumerate() {
            text.push_str(if i > 0 { ", " } else { "" });
            put_repr(&word.shown(), &mut text);
        }
        text + "]"
    }

    /// Returns the text that upstream logs after the command.
    pub(crate) fn log_suffix(&self) -> String {
        let codes = match &self.accepted[..] {
            [] => "any".to_string(),
            codes => format!("{codes:?}"),
        };
        let capture = if self.output == OutputMode::Capture { "True" } else { "False" };
        format!("allowed return codes {codes} (shell=False, capture={capture})")
    }

    /// Returns the name of the program, or of the script that a shell runs; no other argument, as it may be a secret.
    pub(crate) fn short_name(&self) -> String {
        let words = self.arguments().take(2).map(OsStr::to_string_lossy);
        let words: Vec<_> = words.collect();
        let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
        match &words[..] {
            [shell, script] if matches!(&*base(shell), "sh" | "bash") && script.starts_with('/') => {
                base(script)
            }
            [program, ..] => base(program),
            [] => String::new(),
        }
    }

    /// Returns the command as it would be typed in a shell, or its redacted text.
    pub fn command_line(&self) -> String {
        if let Some(redacted) = &self.redacted {
            return redacted.clone();
        }
        let words = self.argv.iter().map(|argument| shell::quote(&argument.shown()));
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_name_of_a_script_is_its_file_name() {
        for (argv, name) in [
            (&["/usr/bin/apt-get", "update"][..], "apt-get"),
            (&["/bin/sh", "/run/x/boot.sh", "secret"], "boot.sh"),
            (&["sh", "-c", "secret"], "sh"),
            (&[], ""),
        ] {
            assert_eq!(Command::new(argv.iter().copied()).short_name(), name);
        }
    }

    #[test]
    fn log_format_matches_upstream() {
        for (command, logged) in [
            (
                Command::new(["systemctl", "daemon-reload"]),
                "['systemctl', 'daemon-reload'] with allowed return codes [0] (shell=False, capture=True)",
            ),
            (
                Command::new(["blkid", "-tTYPE=vfat"]).accept(&[0, 2]).output(OutputMode::Inherit),
                "['blkid', '-tTYPE=vfat'] with allowed return codes [0, 2] (shell=False, capture=False)",
            ),
            (
                Command::new(["chpasswd", "-e"]).redacted("chpasswd -e for a"),
                "chpasswd -e for a with allowed return codes [0] (shell=False, capture=True)",
            ),
            (
                Command::new(["pip"]).redacted("pip install git+https://u:pw@h/x.git"),
                "pip install git+https://h/… with allowed return codes [0] (shell=False, capture=True)",
            ),
            (
                Command::new(["a", "deb https://u:pw@h/x y", "--at=ftp://u:pw@h"]).secret("-p=", "geheim"),
                "['a', 'deb https://h/… y', '--at=ftp://h', '-p=REDACTED'] with allowed return codes [0] (shell=False, capture=True)",
            ),
            (
                Command::of_user(&["curl -u a:geheim", "-d", "geheim"]),
                "['REDACTED', 'REDACTED', 'REDACTED'] with allowed return codes [0] (shell=False, capture=True)",
            ),
            (
                Command::of_user(&["a", "b", "--c", "--d=geheim", "-pgeheim"]),
                "['a', 'REDACTED', '--c', '--d=REDACTED', 'REDACTED'] with allowed return codes [0] (shell=False, capture=True)",
            ),
            (
                Command::of_user(&["a", "--key:geheim", "--key:geheim=b", "--no-key2", "--"]),
                "['a', 'REDACTED', 'REDACTED', '--no-key2', '--'] with allowed return codes [0] (shell=False, capture=True)",
            ),
            (
                Command::new(["sh", "-c", "it's", "a\\\"'b", "\n\u{1}ä", ""]).accept_all(),
                "['sh', '-c', \"it's\", 'a\\\\\"\\'b', '\\n\\x01ä', ''] with allowed return codes any (shell=False, capture=True)",
            ),
        ] {
            assert_eq!(format!("{} with {}", command.logged(), command.log_suffix()), logged);
        }
    }
}
