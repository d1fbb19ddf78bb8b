//! Part handlers: programs that users send along (`#part-handler`) or images bring (`/var/lib/cloud/handlers`)
//! for types of their own. Python ones are loaded by the image's python3 in a process of its own; any other
//! program is called as `PROGRAM list_types` and `PROGRAM handle_part TYPE FILENAME` with the payload on standard
//! input. Both see `__begin__`, each part, `__end__`.

use std::time::Duration;

use serde_json::{Value, json};
use system::{Command, Error, Output, OutputMode, Result, System, WriteOptions, debug, warning};

use crate::store::Dirs;
use crate::{Part, detect};

const SHIM: &str = include_str!("part_handler.py");
/// Nobody has more.
const MOST: usize = 100;

/// What handlers are told of the boot.
#[derive(Debug, Clone, Copy)]
pub struct Boot<'a> {
    /// Whether this is the instance's first boot: others see only handlers of frequency `always`.
    pub first: bool,
    pub instance_data: &'a str,
    /// How long one of the user's programs may take.
    pub time: Duration,
}

impl Boot<'_> {
    fn frequency(self) -> &'static str {
        if self.first { "once-per-instance" } else { "always" }
    }
}

#[derive(Debug)]
struct Custom {
    path: String,
    /// From which Python imports before its own, as handlers may import one another.
    folders: [String; 2],
    python: Option<String>,
    types: Vec<String>,
    /// Whether it is called on this boot.
    due: bool,
    /// For Python: all calls of the source, made at its end.
    calls: Vec<Value>,
}

/// The handlers of one source.
#[derive(Debug, Default)]
pub struct Customs {
    found: Vec<Custom>,
    /// Of the handlers' files.
    number: usize,
}

impl Customs {
    /// Takes up those that lie in the machine's folder of handlers.
    pub fn lasting(&mut self, sys: &System, dirs: &Dirs, boot: Boot<'_>) {
        let folder = format!("{}/handlers", dirs.cloud.trim_end_matches('/'));
        if !sys.is_dir(&folder) {
            return;
        }
        let names = sys.list(&folder).unwrap_or_default();
        for name in names.iter().filter(|name| !name.starts_with(['.', '_']) && !name.ends_with('~')) {
            let path = format!("{folder}/{name}");
            if !sys.is_file(&path) {
                continue;
            }
            if let Err(e) = self.take_up(sys, dirs, path.clone(), boot) {
                warning!(sys, "{path} is not used as a part handler: {e}");
            }
        }
    }

    /// Takes up the handler in a part; only parts behind it are its.
    pub fn register(&mut self, sys: &System, dirs: &Dirs, part: &Part<'_>, boot: Boot<'_>) -> Result<()> {
        let body = body(&part.payload);
        let python = is_python(body);
        let name = format!("part-handler-{:03}", self.number);
        let path = format!("{}/handlers/{name}{}", dirs.instance, if python { ".py" } else { "" });
        // Lines keep their numbers in Python's messages; a program has to begin with `#!`.
        let (content, mode) = if python { (&part.payload[..], 0o600) } else { (body, 0o700) };
        if python && sys.which("python3").is_none() {
            return Err(Error::new("it is written in Python, and there is no python3 on this machine"));
        }
        sys.write(&path, content, WriteOptions::mode(mode))?;
        self.take_up(sys, dirs, path, boot)?;
        self.number += 1;
        Ok(())
    }

    /// Takes up a handler: Python by the name of its file, else a program. The last one of a type counts.
    fn take_up(&mut self, sys: &System, dirs: &Dirs, path: String, boot: Boot<'_>) -> Result<()> {
        if self.found.len() >= MOST {
            return Err(Error::new(format!("there are {MOST} part handlers already")));
        }
        let python = match (path.ends_with(".py"), sys.which("python3")) {
            (false, _) => None,
            (true, Some(python)) => Some(python),
            (true, None) => {
                return Err(Error::new("it is written in Python, and there is no python3 on this machine"));
            }
        };
        let folders =
            [&dirs.instance, &dirs.cloud].map(|dir| format!("{}/handlers", dir.trim_end_matches('/')));
        let mut custom = Custom { path, folders, python, types: Vec::new(), due: true, calls: Vec::new() };
        let said = match &custom.python {
            Some(_) => {
                let done = sys.run(&custom.python_command("list", boot).accept_all())?;
                custom.check(&done)?;
                done.text()
            }
            None => sys.run(&custom.command(&["list_types"], boot))?.text(),
        };
        if sys.is_dry_run() {
            // Nobody was asked, so nobody knows.
            return Ok(());
        }
        if custom.python.is_some() {
            // It may print what it likes when it is loaded; the answer comes last.
            let answer: Value = serde_json::from_str(said.trim_end().lines().last().unwrap_or_default())
                .map_err(|_| Error::new("it does not say which types it handles"))?;
            let types = answer["types"].as_array().into_iter().flatten();
            custom.types = types.filter_map(Value::as_str).map(str::to_ascii_lowercase).collect();
            let frequency = answer["frequency"].as_str().unwrap_or_default();
            custom.due = frequency == "always" || (boot.first && frequency == "once-per-instance");
            if !["always", "once-per-instance", "once"].contains(&frequency) {
                warning!(sys, "{} has an unknown frequency and is never called", custom.path);
            }
        } else {
            let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
            custom.due = boot.first;
            custom.types = lines
                .by_ref()
                .filter(|line| {
                    let always = line.strip_prefix("frequency=");
                    custom.due |= always == Some("always");
                    always.is_none()
                })
                .map(str::to_ascii_lowercase)
                .collect();
        }
        if custom.types.is_empty() {
            return Err(Error::new("it names no type that it handles"));
        }
        debug!(sys, "{} handles {}", custom.path, custom.types.join(", "));
        if custom.due {
            match custom.python {
                Some(_) => custom.calls.push(call("__begin__", None, Value::Null)),
                None => custom.run_part(sys, "__begin__", "", Vec::new(), &Value::Null, boot)?,
            }
        }
        self.found.push(custom);
        Ok(())
    }

    /// Whether a part of that type is a custom handler's.
    pub fn handles(&self, kind: &str) -> bool {
        self.found.iter().any(|custom| custom.handles(kind))
    }

    /// Hands a part to the handler of its type: the last that was taken up, also in place of a built-in one. `None`:
    /// there is none; else whether it was handled.
    pub fn part(&mut self, sys: &System, part: &Part<'_>, name: &str, boot: Boot<'_>) -> Option<Result<()>> {
        let kind = part.content_type.as_str();
        let custom = self.found.iter_mut().rev().find(|custom| custom.handles(kind))?;
        if !custom.due {
            return Some(Ok(()));
        }
        let headers: serde_json::Map<String, Value> =
            part.headers.iter().map(|(name, value)| (name.to_string(), value.into())).collect();
        Some(match custom.python {
            Some(_) => {
                custom.calls.push(call(kind, Some((&part.filename, &part.payload)), Value::Object(headers)));
                Ok(())
            }
            None => custom.run_part(sys, kind, name, part.payload.to_vec(), &Value::Object(headers), boot),
        })
    }

    /// The end of the source. What failed, for the log.
    pub fn finish(&mut self, sys: &System, boot: Boot<'_>) -> Vec<Error> {
        let mut failed = Vec::new();
        for at in 0..self.found.len() {
            let (custom, later) = match self.found.get_mut(at..).and_then(<[Custom]>::split_first_mut) {
                Some((custom, later)) if custom.due => (custom, later),
                _ => continue,
            };
            // One whose types are all a later one's hears of no end.
            let is_left = custom.types.iter().any(|kind| !later.iter().any(|other| other.handles(kind)));
            let done = match custom.python {
                Some(_) => {
                    if is_left {
                        custom.calls.push(call("__end__", None, Value::Null));
                    }
                    let calls = std::mem::take(&mut custom.calls);
                    let work =
                        json!({"calls": calls, "frequency": boot.frequency(), "data": boot.instance_data});
                    let command = custom.python_command("handle", boot).accept_all();
                    sys.run(&command.stdin(work.to_string())).and_then(|done| {
                        // What it prints is for the stage's output, as that of any other program of a user.
                        if !done.stdout.trim_ascii().is_empty() {
                            sys.print(done.text().trim_end());
                        }
                        custom
                            .check(&done)
                            .map_err(|e| Error::new(format!("part handler {}: {e}", custom.path)))
                    })
                }
                None if !is_left => Ok(()),
                None => custom.run_part(sys, "__end__", "", Vec::new(), &Value::Null, boot),
            };
            failed.extend(done.err());
        }
        failed
    }
}

impl Custom {
    fn handles(&self, kind: &str) -> bool {
        self.types.iter().any(|own| own == kind)
    }

    fn python_command(&self, task: &str, boot: Boot<'_>) -> Command {
        let python = self.python.as_deref().unwrap_or("python3");
        let [of_instance, of_machine] = &self.folders;
        let command = Command::new([python, "-c", SHIM, &self.path, task, of_instance, of_machine]);
        command.timeout(boot.time).redacted(format!("{python} {} ({task})", self.path))
    }

    /// What the shim told of calls that failed.
    fn check(&self, done: &Output) -> Result<()> {
        if done.code == 0 {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let last = said.lines().last().filter(|_| done.code == 3);
        Err(Error::new(last.unwrap_or("it could not be run")))
    }

    fn command(&self, words: &[&str], boot: Boot<'_>) -> Command {
        let argv = [self.path.as_str()].into_iter().chain(words.iter().copied());
        let command = Command::new(argv).timeout(boot.time).env("CLOUD_INIT_FREQUENCY", boot.frequency());
        command.env("CLOUD_INIT_INSTANCE_DATA", boot.instance_data)
    }

    fn run_part(
        &self,
        sys: &System,
        kind: &str,
        name: &str,
        payload: Vec<u8>,
        headers: &Value,
        boot: Boot<'_>,
    ) -> Result<()> {
        let command =
            self.command(&["handle_part", kind, name], boot).stdin(payload).output(OutputMode::Inherit);
        sys.run(&command.env("CLOUD_INIT_HEADERS", headers.to_string())).map(drop)
    }
}

fn call(kind: &str, part: Option<(&str, &[u8])>, mut headers: Value) -> Value {
    let payload = part.map(|(_, payload)| encoding::base64::encode(payload));
    if let Some(headers) = headers.as_object_mut() {
        headers.insert("Content-Type".into(), kind.into());
    } else {
        headers = json!({"Content-Type": kind});
    }
    let filename = part.map(|(name, _)| name);
    json!({"type": kind, "filename": filename, "payload": payload, "text": kind.starts_with("text/"), "headers": headers})
}

/// The handler without its header line.
fn body(payload: &[u8]) -> &[u8] {
    let payload = payload.trim_ascii_start();
    match detect::detect(payload) {
        Some(detect::PART_HANDLER) => {
            let end = payload.iter().position(|b| *b == b'\n').map_or(payload.len(), |i| i + 1);
            payload[end..].trim_ascii_start()
        }
        _ => payload,
    }
}

/// Whatever names no other interpreter is Python, as it always was.
fn is_python(body: &[u8]) -> bool {
    let line = body.split(|b| *b == b'\n').next().unwrap_or_default();
    !line.starts_with(b"#!") || line.windows(6).any(|w| w == b"python")
}
