//! power_state_change: powers off, reboots or halts after the boot.
//!
//! The decision is made here; the change waits for the end of the final stage, so that its logs and status are written. A
//! small shell in a session of its own waits: it needs no service manager and is limited by `timeout`. The condition and
//! the message may contain secrets, so they are passed in its environment, which only root can read, and not as
//! arguments, which every process can.

use config::schema::{BOOL, Deprecation, Format, INT, LIST, STR, Type, word};
use config::{FromNode, Node, Reader, Seconds, Value};
use distro::Family;
use encoding::shell;
use system::{Command, Result, debug, warning};

use crate::user_scripts::exit_codes;
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::if_set::<Keys>("power_state_change", Frequency::Instance, run);

config::string_enum! {
    pub enum Mode { PowerOff = "poweroff", Reboot = "reboot", Halt = "halt" }
}

config::keys! {
    pub struct PowerState {
        /// Minutes to wait after the boot, or `now`.
        delay: Delay = "now";
        /// The new power state.
        mode: Mode;
        /// The message for logged-in users.
        message: Option<String>;
        /// Seconds to wait for the final stage to complete.
        // Wait: power_state_change | the final stage to end | `power_state: {timeout: SECONDS}`
        timeout: Seconds = 30, types [INT];
        /// true, false, or a command: exit status 0 is true, 1 is false.
        condition: Condition = true;
    }
    pub struct Keys {
        /// Power off, reboot or halt at the end of the boot.
        power_state: Option<PowerState>;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delay {
    Now,
    Minutes(u32),
}

const TEXT_DELAY: Deprecation = Deprecation::new("22.3", "a number of minutes").message(
    "Changed in version 22.3. Use of type string for this value is deprecated. Use ``now`` or integer type.",
);

impl FromNode for Delay {
    const SCHEMA: &'static [Type] =
        &[INT.min(0), STR.format(Format::Minutes).deprecated(&TEXT_DELAY), word("now")];
    fn read(node: &Node, reader: &mut Reader) -> Option<Delay> {
        let text = node.scalar_text().unwrap_or_default();
        if text == "now" {
            return Some(Delay::Now);
        }
        // Upstream truncates fractions too.
        if let Value::Float(minutes) = node.value
            && (0.0..1e6).contains(&minutes)
        {
            return Some(Delay::Minutes(minutes as u32));
        }
        let digits = text.strip_prefix('+').unwrap_or(&text);
        match digits.parse() {
            Ok(minutes) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                if node.as_str().is_some() {
                    reader.report_deprecated_form(node, &TEXT_DELAY);
                }
                Some(Delay::Minutes(minutes))
            }
            _ => reader.type_error(node, "'now' or a number of minutes"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Always,
    Never,
    /// A shell command line.
    Shell(String),
    /// The argument vector of a program.
    Program(Vec<String>),
}

impl FromNode for Condition {
    const SCHEMA: &'static [Type] = &[STR, BOOL, LIST];
    fn read(node: &Node, reader: &mut Reader) -> Option<Condition> {
        match &node.value {
            Value::Bool(true) => Some(Condition::Always),
            Value::Bool(false) => Some(Condition::Never),
            Value::Str(text) => Some(Condition::Shell(text.clone())),
            Value::Seq(items) if !items.is_empty() => Vec::<String>::read(node, reader)
                .filter(|words| words.len() == items.len())
                .map(Condition::Program),
            _ => reader.type_error(node, "true, false, a command or a list of its words"),
        }
    }
}

/// The names that scripts search for in the log.
const NOT_PERFORMING: &str = "Not performing power state change!";

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let (keys, invalid) = context.read_keys_and_findings::<Keys>();
    if invalid.has_invalid("power_state") {
        // An invalid delay would default to "now".
        warning!(sys, "power_state is invalid. {NOT_PERFORMING}");
        return Ok(());
    }
    let Some(wanted) = keys.and_then(|k| k.power_state) else {
        debug!(sys, "no power_state provided. doing nothing");
        return Ok(());
    };
    if wanted.condition == Condition::Never {
        debug!(sys, "Condition was false. Will not perform state change.");
        return Ok(());
    }
    if context.distro.family == Family::Alpine && wanted.message.is_some() {
        warning!(sys, "power_state.message is not supported on Alpine; ignored");
    }
    let action = shutdown_command(&wanted, context.distro.family);
    exit_codes::withdraw_reboot(context);
    change_after_stage(context, &wanted, &action)
}

/// Reboots the machine when the stage has ended.
///
/// # Errors
/// Fails if the program that waits cannot be started.
fn reboot_after_stage(context: &Context<'_>, message: &str) -> Result<()> {
    let wanted = PowerState {
        delay: Delay::Now,
        mode: Mode::Reboot,
        message: Some(message.to_string()),
        // Handlers of events may need some time at the stage's end.
        timeout: Seconds(60.0),
        condition: Condition::Always,
    };
    change_after_stage(context, &wanted, &shutdown_command(&wanted, context.distro.family))
}

/// Reboots at the end of the final stage if a script has requested it by its exit code, and not too often.
///
/// # Errors
/// Fails if the reboot cannot be counted or started.
pub fn reboot_if_requested(context: &Context<'_>) -> Result<()> {
    match exit_codes::take_reboot_request(context)? {
        Some(script) => reboot_after_stage(context, &format!("requested by {script}")),
        None => Ok(()),
    }
}

fn change_after_stage(context: &Context<'_>, wanted: &PowerState, action: &[String; 4]) -> Result<()> {
    let sys = context.sys;
    let pid = std::process::id();
    debug!(sys, "After pid {pid} ends, will execute: {}", action.join(" ").trim_end());
    let log = context.config.get("def_log_file").and_then(Node::as_str).unwrap_or(DEFAULT_LOG);
    sys.spawn_detached(&wait_command(pid, wanted, action, log))
}

/// Returns the command that changes the state: program, option, time and message (which may be empty).
fn shutdown_command(wanted: &PowerState, family: Family) -> [String; 4] {
    if family == Family::Alpine {
        // Busybox has no shutdown; its programs count in seconds and print nothing.
        let seconds = if let Delay::Minutes(m) = wanted.delay { u64::from(m) * 60 } else { 0 };
        return [wanted.mode.as_str().into(), "-d".into(), seconds.to_string(), String::new()];
    }
    let option = match wanted.mode {
        Mode::PowerOff => "-P",
        Mode::Reboot => "-r",
        Mode::Halt => "-H",
    };
    let delay = match wanted.delay {
        Delay::Now => "now".to_string(),
        Delay::Minutes(minutes) => format!("+{minutes}"),
    };
    ["shutdown".into(), option.into(), delay, wanted.message.clone().unwrap_or_default()]
}

const DEFAULT_LOG: &str = "/var/log/cloud-init.log";

/// The script of the waiting shell. Arguments: PID of the stage, milliseconds, program, option and time of the change. In
/// the environment: the message, the condition as shell text, and the log. The stage has ended if its PID does not exist,
/// belongs to another process (by the start time of stat(5), counted from the end of the name, which may contain
/// anything), or is a zombie.
///
/// The condition is evaluated in a subshell, so that its text is not an argument of any process; only its exit
/// code counts.
const WAIT_SCRIPT: &str = r#"
pid=$1 left=$2 program=$3 option=$4 delay=$5
message=$POWER_STATE_MESSAGE condition=$POWER_STATE_CONDITION log=$POWER_STATE_LOG
unset POWER_STATE_MESSAGE POWER_STATE_CONDITION POWER_STATE_LOG
set --
born() {
    IFS= read -r line 2>/dev/null </proc/$pid/stat || return 0
    set -- ${line##*) }
    [ "$1" = Z ] || { shift 19; echo "$1"; }
}
say() {
    [ "$1" = DEBUG ] || echo "power_state: $2" >&2
    [ ! -f "$log" ] || echo "$(date '+%Y-%m-%d %H:%M:%S'),000 - power_state_change.rs[$1]: $2" >>"$log"
}
first=$(born 2>/dev/null)
while [ -n "$first" ] && [ "$(born 2>/dev/null)" = "$first" ] && [ "$left" -gt 0 ]; do
    if sleep 0.25 2>/dev/null; then left=$((left - 250)); else sleep 1; left=$((left - 1000)); fi
done
if [ -n "$condition" ]; then
    ( unset pid left program option delay message log first; eval "unset condition
$condition" )
    code=$?
    case $code in
        0) say DEBUG 'check_condition command: exited 0. condition met.' ;;
        1) say DEBUG 'check_condition command: exited 1. condition not met.'; exit 0 ;;
        *) say WARNING "check_condition command: unexpected exit $code. do not apply change."; exit 254 ;;
    esac
fi
exec "$program" "$option" "$delay" ${message:+"$message"}
"#;

/// Returns the shell that waits, evaluates the condition and makes the change.
fn wait_command(pid: u32, wanted: &PowerState, action: &[String; 4], log: &str) -> Command {
    let [program, option, delay, message] = action;
    let condition = match &wanted.condition {
        Condition::Always | Condition::Never => String::new(),
        Condition::Shell(text) => text.clone(),
        // A program, even if the shell has a builtin of that name.
        Condition::Program(words) => {
            words.iter().fold("exec".into(), |line: String, word| line + " " + &shell::quote(word))
        }
    };
    let only_if = if condition.is_empty() { "" } else { ", if its condition holds" };
    // A day is longer than any boot.
    let milliseconds = (wanted.timeout.0.min(86_400.0) * 1000.0).ceil() as u64;
    let numbers = [pid.to_string(), milliseconds.to_string()];
    let fixed = ["/bin/sh", "-c", WAIT_SCRIPT, "power_state"].map(String::from);
    let action = [program, option, delay].map(Clone::clone);
    Command::new(fixed.iter().chain(&numbers).chain(&action))
        .env("POWER_STATE_MESSAGE", message)
        .env("POWER_STATE_CONDITION", condition)
        .env("POWER_STATE_LOG", log)
        .redacted(format!("{program} {option} {delay}, when this stage has ended{only_if}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::{Sandbox, yaml};

    fn read(text: &str) -> Option<PowerState> {
        PowerState::read(&yaml(text), &mut Reader::new())
    }

    #[test]
    fn shutdown_command_depends_on_mode_and_distribution() {
        for (text, family, words) in [
            ("mode: halt, delay: 1.7", Family::Debian, "shutdown -H +1 "),
            ("mode: reboot, delay: 2, message: x", Family::Alpine, "reboot -d 120 "),
        ] {
            assert_eq!(shutdown_command(&read(&format!("{{{text}}}")).unwrap(), family).join(" "), words);
        }
    }

    #[test]
    fn wrong_delays_do_nothing() {
        for delay in ["true", "-1", "'-5'", "-1.5"] {
            let sandbox = Sandbox::new(&format!("power_state: {{mode: reboot, delay: {delay}}}"));
            sandbox.run(&MODULE).unwrap();
            assert!(sandbox.commands().is_empty(), "{delay}");
            assert!(sandbox.logged_warnings().iter().any(|line| line.contains(NOT_PERFORMING)), "{delay}");
        }
    }

    #[test]
    fn condition_and_message_are_not_arguments() {
        let sandbox = Sandbox::live("{}");
        let recorded = sandbox.top.join("recorded").to_string_lossy().into_owned();
        // Records the arguments of the waiting shell and the environment of the condition.
        let tell = format!("tr '\\0' '\\n' </proc/$PPID/cmdline >{recorded}; env >>{recorded}");
        let words = ["sh", "-c", &tell, "s3cret"].map(String::from).to_vec();
        for condition in [
            Condition::Program(words),
            Condition::Shell(format!("sh -c \"{}\" s3cret", tell.replace('$', "\\$"))),
        ] {
            let wanted = PowerState { condition, ..read("{mode: reboot}").unwrap() };
            let action = ["true".into(), "-r".into(), "now".into(), "s3cret".into()];
            sandbox.sys.run(&wait_command(u32::MAX, &wanted, &action, "/none")).unwrap();
            let text = std::fs::read_to_string(&recorded).unwrap();
            assert!(text.contains("power_state") && text.contains("PATH="), "{text}");
            assert!(!text.contains("s3cret") && !text.contains("POWER_STATE_MESSAGE="), "{text}");
            assert!(!format!("{:?}", sandbox.sys.effects()).contains("s3cret"));
        }
    }

    /// Runs the waiter on a process, with `touch` in place of `shutdown`. Returns whether it was called, whether the
    /// process had ended, the exit status and the log.
    fn wait_and_touch(condition: &str, timeout: &str) -> (bool, bool, i32, String) {
        let sandbox = Sandbox::live("{}");
        let mark = sandbox.top.join("it's done").to_string_lossy().into_owned();
        let seconds = if timeout == "0" { "60" } else { "0.6" };
        let mut stage = std::process::Command::new("sleep").arg(seconds).spawn().unwrap();
        let wanted = read(&format!("{{mode: reboot, timeout: {timeout}, condition: {condition}}}")).unwrap();
        let action = ["touch".into(), "--".into(), mark.clone(), String::new()];
        let log = sandbox.top.join("log");
        std::fs::write(&log, "").unwrap();
        let command = wait_command(stage.id(), &wanted, &action, &log.to_string_lossy()).accept_all();
        let code = sandbox.sys.run(&command).unwrap().code;
        let has_ended = stage.try_wait().unwrap().is_some();
        stage.kill().unwrap();
        stage.wait().unwrap();
        (std::path::Path::new(&mark).exists(), has_ended, code, std::fs::read_to_string(log).unwrap())
    }

    #[test]
    fn waits_for_the_stage_then_checks_the_condition() {
        for (condition, timeout, done, code, expected) in [
            // The ended stage stays a zombie here, because no process waits for it; that counts as ended.
            ("true", "20", true, 0, ""),
            ("true", "0", true, 0, ""),
            ("'exit 0'", "20", true, 0, "DEBUG]: check_condition command: exited 0. condition met."),
            ("'exit 1'", "20", false, 0, "exited 1. condition not met."),
            ("'exit 2'", "20", false, 254, "WARNING]: check_condition command: unexpected exit 2. do not"),
            ("'test -z \"$pid$condition$POWER_STATE_CONDITION$1\"'", "0", true, 0, "exited 0"),
            ("'case x in'", "0", false, 254, "unexpected exit 2"),
            ("''", "0", true, 0, ""),
            ("\"# a comment\\nfalse\"", "0", false, 0, "not met"),
            ("[test, '*', '=', '*']", "0", true, 0, "exited 0"),
            ("[test, \"it's a\\nb\", '=', \"it's a\\nb\"]", "0", true, 0, "exited 0"),
            ("[no-such-program]", "0", false, 254, "unexpected exit 127"),
            // Builtins of the shell, not programs.
            ("[exit, '0']", "0", false, 254, "unexpected exit 127"),
        ] {
            let (touched, has_ended, exit, log) = wait_and_touch(condition, timeout);
            assert_eq!((touched, exit, has_ended), (done, code, timeout != "0"), "{condition}");
            assert!(log.contains(expected) && log.is_empty() == expected.is_empty(), "{condition}: {log}");
        }
    }

    #[test]
    fn the_wait_command_runs_in_its_own_session() {
        let sandbox = Sandbox::live("{}");
        let mark = sandbox.top.join("session");
        let action = [
            "/bin/sh".into(),
            "-c".into(),
            format!("ps -o sid=,pid= -p $$ >{}.new; mv {0}.new {0}", mark.display()),
            String::new(),
        ];
        let wanted = read("{mode: reboot, timeout: 0}").unwrap();
        sandbox.sys.spawn_detached(&wait_command(std::process::id(), &wanted, &action, "")).unwrap();
        scratch::wait_until(|| mark.exists());
        let text = std::fs::read_to_string(&mark).unwrap();
        let ids: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(ids[0], ids[1], "not the leader of a session: {text}");
    }
}
