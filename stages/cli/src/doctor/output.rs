//! The output of the commands of the last boot: the lines that say why one failed.

use system::System;

use super::cause::Cause;
use crate::machine::Machine;

/// Bytes of a file that is read.
const MAX_FILE: u64 = 64 << 20;
/// Bytes of a script that another one calls, and the maximum number of such scripts, and of files with their output.
const MAX_SCRIPT: u64 = 256 << 10;
const MAX_FILES: usize = 8;
/// Bytes of a path that replaces a variable: each place of the variable grows by it.
const MAX_PATH: usize = 256;
/// The maximum number of lines that are quoted.
const MAX_LINES: usize = 5;
/// The maximum number of scripts with messages of a shell, and of such messages of one.
const MAX_MESSAGES: usize = 20;
/// The maximum length of a line in characters.
const MAX_WIDTH: usize = 200;

/// Words in lines that name a reason, in lower case, separated by bars.
const REASONS: &str = "error|not known|malformed|fail|not found|no such|denied|cannot|can't|unable|could not|refused|timed out|\
    invalid|unknown|fatal|traceback|unreachable|not permitted|no space|syntax|unexpected|bad |missing|e: the repository|no installation candidate";
/// Parts of messages about an account, a unit or a package that does not exist, and of those about one that is to be removed.
const ABSENT: &str =
    " does not exist| not found.|: no such user|invalid user:|invalid group:|nable to locate package ";
const REMOVALS: &str = "Failed to disable|Failed to stop|Failed to mask|userdel|groupdel|deluser|delgroup";
/// Beginnings of lines that cloud-init or ssh-keygen writes, separated by commas.
const OWN: &str = "ci-info: ,Cloud-init v. ,-----,The key,Generating public/private,Your identification,Your public key,SHA256:,+--,|";

/// The output of the last boot, by stage: the name of its line `Cloud-init v. VERSION running 'NAME' at`, and its lines.
#[derive(Default)]
pub struct Output {
    stages: Vec<(String, Vec<String>)>,
}

impl Output {
    pub fn read(machine: &Machine) -> Output {
        // The first is the log.
        let read = |path: &String| machine.sys.read_at_most(path, MAX_FILE).ok();
        let files: Vec<_> = machine.log_files().iter().skip(1).filter_map(read).collect();
        Output::parse(&String::from_utf8_lossy(&files.concat()))
    }

    fn parse(text: &str) -> Output {
        let mut stages: Vec<(String, Vec<String>)> = Vec::new();
        for line in text.lines() {
            let begin = line.strip_prefix("Cloud-init v. ").and_then(|rest| rest.split_once(" running '"));
            if let Some((_, rest)) = begin {
                let name = rest.split('\'').next().unwrap_or_default().replace(':', "-");
                if name == "init-local" {
                    stages.clear();
                }
                stages.push((name, Vec::new()));
            } else if let Some((_, lines)) = stages.last_mut()
                && !line.trim().is_empty()
                && !OWN.split(',').any(|own| line.starts_with(own))
            {
                lines.push(line.chars().take(MAX_WIDTH).collect());
            }
        }
        Output { stages }
    }

    /// Returns the messages of shells about commands of cloud-init's scripts, `SCRIPT: [line] NUMBER: MESSAGE`, by stage and script:
    /// some of them, as an output may have millions.
    pub fn script_errors(&self, tops: &[String]) -> Vec<(String, String, Vec<String>)> {
        let mut found: Vec<(String, String, Vec<String>)> = Vec::new();
        for (stage, line) in
            self.stages.iter().flat_map(|(stage, lines)| lines.iter().map(move |line| (stage, line)))
        {
            let Some((path, message)) =
                line.split_once(": ").filter(|(path, _)| tops.iter().any(|top| path.starts_with(top)))
            else {
                continue;
            };
            let number = message.strip_prefix("line ").unwrap_or(message).split(':').next();
            if number.is_none_or(|number| number.parse::<u32>().is_err()) {
                continue;
            }
            let script = path.rsplit('/').next().unwrap_or_default();
            let is_full = found.len() == MAX_MESSAGES;
            match found.iter_mut().find(|(_, known, _)| known == script) {
                Some((.., lines)) if lines.len() < MAX_MESSAGES => lines.push(line.clone()),
                None if !is_full && !script.is_empty() => {
                    found.push((stage.clone(), script.to_string(), vec![line.clone()]))
                }
                _ => {}
            }
        }
        found
    }

    /// Returns the lines of a stage that tell why a command failed: those that name a reason, else the last ones. Those that
    /// name a script are preferred. What is before the messages of a failure, up to the message before, is the output of that
    /// failure, or what is after them if nothing is before: the output comes through a pipe.
    pub fn reasons(&self, stage: &str, script: &str, messages: &[String]) -> Vec<String> {
        fn output<'a>(lines: &[&'a String]) -> Vec<&'a String> {
            lines.iter().copied().filter(|line| !is_log(line)).collect()
        }
        let is_own =
            |line: &&String| is_log(line) && messages.iter().any(|text| line.contains(text.as_str()));
        let of_stage = self.stages.iter().filter(|(name, _)| name == stage);
        let lines: Vec<&String> = of_stage.flat_map(|(_, lines)| lines).collect();
        let of_script = |line: &&&String| !script.is_empty() && line.contains(script) && !is_log(line);
        let of_script: Vec<&String> = lines.iter().filter(of_script).copied().collect();
        let mut own: Vec<&String> = output(&lines);
        if let Some(end) = lines.iter().position(is_own) {
            let begin = lines[..end].iter().rposition(is_log).map_or(0, |log| log + 1);
            own = output(&lines[begin..end]);
            if own.is_empty() {
                let next = lines[end..].iter().position(|line| is_log(line) && !is_own(line));
                own = output(&lines[end..next.map_or(lines.len(), |next| end + next)]);
            }
        }
        if of_script.is_empty() { chosen(&own) } else { last(&of_script) }
    }

    fn of_final(&self) -> impl Iterator<Item = &String> {
        self.stages.iter().filter(|(name, _)| name == "modules-final").flat_map(|(_, lines)| lines)
    }

    /// Returns the first line of the final stage that shows a cause of failures, and the cause.
    pub fn cause(&self) -> Option<(&'static Cause, &str)> {
        let mut lines = self.of_final().filter(|line| !is_log(line));
        lines.find_map(|line| Some((Cause::of(std::slice::from_ref(line))?.0, line.as_str())))
    }

    /// Returns the lines of the final stage about something that does not exist, with its name.
    pub fn absent(&self) -> Vec<(&str, &str)> {
        let lines = self.of_final();
        lines.filter_map(|line| Some((line.as_str(), absent(line)?))).take(MAX_MESSAGES).collect()
    }
}

/// Returns the lines of an output that say why a command failed: those that show a known cause, else
/// those that name a reason, else the last ones.
fn chosen(lines: &[&String]) -> Vec<String> {
    let is_reason = |line: &str| {
        let line = line.to_ascii_lowercase();
        REASONS.split('|').any(|reason| line.contains(reason))
    };
    let kinds: [&dyn Fn(&str) -> bool; 3] = [&Cause::is_any_shown, &is_reason, &|_| true];
    let of_kind = |is_one: &&dyn Fn(&str) -> bool| {
        let own: Vec<&String> = lines.iter().copied().filter(|line| is_one(line)).collect();
        (!own.is_empty()).then(|| last(&own))
    };
    kinds.iter().find_map(of_kind).unwrap_or_default()
}

fn last(lines: &[&String]) -> Vec<String> {
    lines[lines.len().saturating_sub(MAX_LINES)..].iter().map(|line| (*line).clone()).collect()
}

/// Returns the lines that say why a command failed of the files to which a script, and the scripts that it calls, send their output.
pub fn redirected(sys: &System, script: &str) -> Vec<String> {
    let called = script.split_whitespace().filter(|word| word.starts_with('/') && sys.is_file(word));
    let called = called.filter_map(|path| sys.read_head(path, MAX_SCRIPT).ok());
    let called = called.filter(|text| text.starts_with(b"#!")).take(MAX_FILES);
    let texts: Vec<String> = std::iter::once(expanded(script))
        .chain(called.map(|text| expanded(&String::from_utf8_lossy(&text))))
        .collect();
    let mut files: Vec<&str> = texts.iter().flat_map(|text| text.lines()).filter_map(target).collect();
    files.dedup();
    // Not /dev/console: reading would take input from it.
    let files = files.into_iter().filter(|file| sys.is_file(file)).take(MAX_FILES);
    let read = |file: &str| {
        let text = sys.read_at_most(file, MAX_FILE).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<String> = text.lines().map(|line| line.chars().take(MAX_WIDTH).collect()).collect();
        chosen(&lines.iter().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>())
    };
    files.flat_map(read).collect()
}

/// Returns a script with the paths that it assigns to variables, such as `LOG=/var/log/x`, in their places.
fn expanded(script: &str) -> String {
    let assigned = |line: &str| {
        let (name, value) = line.trim().split_once('=')?;
        let value = value.trim_matches(['"', '\'']);
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_path =
            value.starts_with('/') && value.len() < MAX_PATH && !value.contains([' ', '$', ';', '`']);
        (is_name && is_path).then(|| (name.to_string(), value.to_string()))
    };
    let is_small = script.len() as u64 <= MAX_SCRIPT;
    let assigned = script.lines().filter(|_| is_small).filter_map(assigned);
    assigned.take(MAX_FILES).fold(script.to_string(), |text, (name, value)| {
        text.replace(&format!("${{{name}}}"), &value).replace(&format!("${name}"), &value)
    })
}

/// Returns the file of a line such as `exec >FILE 2>&1`, `exec > >(tee -a FILE | logger) 2>&1`, `PROGRAM >>FILE 2>&1` or
/// `PROGRAM 2>&1 | tee FILE`. One without errors may be a file with settings.
fn target(line: &str) -> Option<&str> {
    let is_exec = |line: &str| line.trim_start().starts_with(['>', '&', '1', '2']);
    let words = match line.trim().strip_prefix("exec ") {
        Some(words) if is_exec(words) => words,
        _ if !line.contains("2>") && !line.contains("&>") => return None,
        _ => {
            let end = |mark: &str| line.find(mark).map(|at| at + mark.len());
            line.get(end("tee ").or(end(">"))?..)?
        }
    };
    let mut words =
        words.split_whitespace().map(|word| word.trim_matches(|c: char| "<>&()12;\"'".contains(c)));
    words.find(|word| word.starts_with('/') && !word.starts_with("/dev/"))
}

/// Returns the name of what does not exist, by a message about it that is not about its removal.
fn absent(line: &str) -> Option<&str> {
    let has = |parts: &str| parts.split('|').find_map(|part| Some((line.find(part)?, part.len())));
    let (at, length) = has(ABSENT).filter(|_| has(REMOVALS).is_none())?;
    let is_end = |c: char| c == '.' || c == ':' || c.is_whitespace();
    let (before, after) = (line[..at].trim_matches(is_end), line[at + length..].trim_matches(is_end));
    let plain = if after.is_empty() { before.rsplit(' ').next() } else { after.split(' ').next() };
    let name = line.split(['\'', '"', '`', '‘', '’']).nth(1).or(plain)?;
    (name.len() > 1).then_some(name)
}

/// Returns whether a line is one of the log, on the console.
fn is_log(line: &&String) -> bool {
    line.contains(".rs[")
}

#[cfg(test)]
mod tests {
    #[test]
    fn variables_with_paths_are_expanded() {
        for (script, expected) in [
            ("log=/a\nx >>$log 2>&1", "log=/a\nx >>/a 2>&1"),
            ("L=\"/a\"\nx >\"${L}\" 2>&1", "L=\"/a\"\nx >\"/a\" 2>&1"),
            ("x=b\ny >$x 2>&1", "x=b\ny >$x 2>&1"),
        ] {
            assert_eq!(super::expanded(script), expected);
        }
        // The text would grow with the length times the number of places.
        let long = format!("x=/{}\ny >$x", "a".repeat(super::MAX_PATH));
        assert_eq!(super::expanded(&long), long);
    }

    #[test]
    fn reasons_are_the_lines_of_the_stage_and_the_script() {
        let begin = |stage: &str| format!("Cloud-init v. 1 running '{stage}' at x. Up 1 seconds.\n");
        let text = begin("modules:final")
            + "of the boot before: failed\n"
            + &begin("init-local")
            + "ci-info: failed\n"
            + &begin("modules:final")
            + "hello\n/x/scripts/part-001: 3: curl: not found\n2026 - run.rs[WARNING]: failed\nCloud-init v. 1 finished at\n";
        let output = super::Output::parse(&text);
        assert_eq!(
            output.reasons("modules-final", "part-001", &[]),
            ["/x/scripts/part-001: 3: curl: not found"]
        );
        assert_eq!(
            output.reasons("modules-final", "other", &[]),
            ["/x/scripts/part-001: 3: curl: not found"]
        );
        assert!(output.reasons("modules-config", "", &[]).is_empty());
        let text = begin("modules:final")
            + "a: failed\n2026 - a.rs[ERROR]: first\nb: failed\n2026 - b.rs[WARNING]: second\n2026 - b.rs[WARNING]: third\nc: failed\n";
        let output = super::Output::parse(&text);
        for (message, line) in [("first", "a: failed"), ("second", "b: failed"), ("third", "c: failed")] {
            assert_eq!(output.reasons("modules-final", "", &[message.into()]), [line]);
        }

        let text = begin("modules:final")
            + "/x/scripts/runcmd: 2: source: not found\n/x/scripts/b: line 7: y: command not found\n/x/scripts/runcmd: 4: z: not found\n\
               /x/a: text\n/y/a: 2: not ours\n";
        let found = super::Output::parse(&text).script_errors(&["/x/".to_string()]);
        let names: Vec<_> = found
            .iter()
            .map(|(stage, script, lines)| (stage.as_str(), script.as_str(), lines.len()))
            .collect();
        assert_eq!(names, [("modules-final", "runcmd", 2), ("modules-final", "b", 1)]);
    }

    #[test]
    fn lines_that_show_a_cause_are_preferred() {
        let begin = "Cloud-init v. 1 running 'modules:final' at x. Up 1 seconds.\n";
        for (lines, expected) in [
            (
                "a: failed\nErr: Temporary failure resolving\nb: No such file\n",
                "Err: Temporary failure resolving",
            ),
            (
                "c: failed\nE: Package x has no installation candidate\nb: No such file\n",
                "E: Package x has no installation candidate",
            ),
            ("hello\nb: failed\nbye\n", "b: failed"),
            ("bye\n", "bye"),
        ] {
            let output = super::Output::parse(&(begin.to_string() + lines));
            assert_eq!(output.reasons("modules-final", "", &[]), [expected]);
        }
        let output = super::Output::parse(&format!("{begin}hello\nErr: Temporary failure resolving\n"));
        assert_eq!(output.cause().map(|(_, line)| line), Some("Err: Temporary failure resolving"));
    }

    #[test]
    fn files_with_the_output_of_a_script_are_known() {
        for (line, file) in [
            ("exec >/var/log/a.log 2>&1", "/var/log/a.log"),
            ("  exec > >(tee -a /var/log/b.log | logger -t x) 2>&1", "/var/log/b.log"),
            ("exec &>> \"/var/log/c\"", "/var/log/c"),
            ("exec 2> /var/log/d", "/var/log/d"),
            ("exec /usr/bin/x >/var/log/e", ""),
            ("/opt/a.sh >> /var/log/f 2>&1", "/var/log/f"),
            ("/opt/a.sh &>/var/log/g || exit 1", "/var/log/g"),
            ("sh -x /opt/a.sh 2>&1 | tee -a '/var/log/h'", "/var/log/h"),
            ("a 2>/dev/null", ""),
            ("echo key=secret >/etc/app.conf", ""),
            ("exec 2>&1", ""),
            ("echo >/x", ""),
        ] {
            assert_eq!(super::target(line).unwrap_or_default(), file, "{line}");
        }
    }

    #[test]
    fn names_of_what_does_not_exist_are_found() {
        for (line, name) in [
            ("Failed to enable unit: Unit docker.service does not exist", "docker.service"),
            ("Failed to restart ntpd.service: Unit ntpd.service not found.", "ntpd.service"),
            ("usermod: group 'docker' does not exist", "docker"),
            ("id: ‘bob’: no such user", "bob"),
            ("chown: invalid user: ‘www:www’", "www:www"),
            ("E: Unable to locate package foo", "foo"),
            ("Failed to disable unit: Unit file x.service does not exist.", ""),
            ("userdel: user 'x' does not exist", ""),
            ("/s: 1: x: not found", ""),
        ] {
            assert_eq!(super::absent(line).unwrap_or_default(), name, "{line}");
        }
    }
}
