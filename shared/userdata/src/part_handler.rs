//! Part handlers: programs for custom part types, sent in user-data (`#part-handler`) or installed in the image
//! (`/var/lib/cloud/handlers`). Python handlers are loaded by the image's python3 in a separate process. Any other
//! program is called as `PROGRAM list_types` and `PROGRAM handle_part TYPE FILENAME` with the payload on standard
//! input. Both are called with `__begin__`, each part and `__end__`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use system::{Command, Error, Output, OutputMode, Result, System, WriteOptions, debug, warning};

use crate::detect;
use crate::options::Dirs;
use crate::part::Part;

const SHIM: &str = include_str!("part_handler.py");
/// The line that the shim writes to standard error after it made all calls without a failure.
const ALL_CALLS_MADE: &str = "all calls were made";
/// The limit for compiling a handler.
// Wait: schema | python3, which compiles a part handler | -
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of a handler that is compiled for a check: python3 needs more than a hundred times as much memory.
const MAX_CHECKED: usize = 1 << 20;
/// The maximum number of part handlers of a source.
const MAX_HANDLERS: usize = 100;

/// The properties of the boot that are passed to handlers.
#[derive(Debug, Clone, Copy)]
pub struct HandlerContext<'a> {
    /// Whether this is the instance's first boot. On later boots, only handlers of frequency `always` are called.
    pub first_boot: bool,
    /// The path of instance-data.json.
    pub instance_data: &'a str,
    /// The time that all calls of the handlers of a source have together.
    pub timeout: Duration,
}

impl HandlerContext<'_> {
    fn frequency(self) -> &'static str {
        if self.first_boot { "once-per-instance" } else { "always" }
    }
}

#[derive(Debug)]
struct PartHandler {
    path: String,
    /// Directories that come first in Python's import path, because handlers may import one another.
    folders: [String; 2],
    python: Option<String>,
    types: Vec<String>,
    /// Whether the handler is called on this boot.
    due: bool,
    /// The calls of a Python handler, which are made at the end of the source.
    calls: Vec<Value>,
    /// The time that the calls of all handlers have taken.
    spent: Rc<Cell<Duration>>,
}

/// The handlers of one source.
#[derive(Debug, Default)]
pub struct PartHandlers {
    found: Vec<PartHandler>,
    /// The index of the handler of each type: the one that was loaded last.
    of_type: BTreeMap<String, usize>,
    /// The number of the next handler's file.
    number: usize,
    spent: Rc<Cell<Duration>>,
    /// Whether a handler was loaded in a dry run, which cannot ask it for its types.
    pub has_unknown_types: bool,
}

impl PartHandlers {
    /// Loads the handlers that are installed in `handlers/` of the machine's directory.
    pub fn load_installed(&mut self, sys: &System, dirs: &Dirs, context: HandlerContext<'_>) {
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
            if let Err(e) = self.load(sys, dirs, path.clone(), context) {
                warning!(sys, "skipping part handler {path}: {e}");
            }
        }
    }

    /// Writes and loads the handler in a part. It handles the parts that follow.
    ///
    /// # Errors
    ///
    /// Fails if python3 is missing, the file cannot be written or the handler cannot be loaded.
    pub fn register(
        &mut self,
        sys: &System,
        dirs: &Dirs,
        part: &Part<'_>,
        context: HandlerContext<'_>,
    ) -> Result<()> {
        let body = strip_handler_header(&part.payload);
        let python = is_python(body);
        let name = format!("part-handler-{:03}", self.number);
        let path = format!("{}/handlers/{name}{}", dirs.instance, if python { ".py" } else { "" });
        // Python's messages keep their line numbers; a program must begin with `#!`.
        let (content, mode) = if python { (&part.payload[..], 0o600) } else { (body, 0o700) };
        python_for(sys, &path)?;
        state::clear_path(sys, &path)?;
        sys.write(&path, content, WriteOptions::mode(mode))?;
        self.load(sys, dirs, path, context)?;
        self.number += 1;
        Ok(())
    }

    /// Loads a handler: Python if its file name ends in `.py`, else a program.
    fn load(&mut self, sys: &System, dirs: &Dirs, path: String, context: HandlerContext<'_>) -> Result<()> {
        if self.found.len() >= MAX_HANDLERS {
            return Err(Error::new(format!("more than {MAX_HANDLERS} part handlers")));
        }
        let python = python_for(sys, &path)?;
        let folders =
            [&dirs.instance, &dirs.cloud].map(|dir| format!("{}/handlers", dir.trim_end_matches('/')));
        let mut handler = PartHandler {
            path,
            folders,
            python,
            types: Vec::new(),
            due: true,
            calls: Vec::new(),
            spent: self.spent.clone(),
        };
        let output = match &handler.python {
            Some(_) => {
                let done = handler.run(sys, handler.python_command("list").accept_all(), context)?;
                failure(&done).map_or(Ok(()), Err)?;
                done.text()
            }
            None => handler.run(sys, handler.command(&["list_types"], context), context)?.text(),
        };
        if sys.is_dry_run() {
            // A dry run does not run the handler, so its types are unknown.
            self.has_unknown_types = true;
            return Ok(());
        }
        if handler.python.is_some() {
            // The handler may print text while it is loaded; the answer is the last line.
            let last = output.trim_end().lines().last().unwrap_or_default();
            let answer = config::json::value(last.as_bytes())
                .map_err(|e| Error::new(format!("list_types returned no valid answer: {e}")))?;
            let types = answer["types"].as_array().into_iter().flatten();
            handler.types = types.filter_map(Value::as_str).map(str::to_ascii_lowercase).collect();
            let frequency = answer["frequency"].as_str().unwrap_or_default();
            handler.due = frequency == "always" || (context.first_boot && frequency == "once-per-instance");
            if !["always", "once-per-instance", "once"].contains(&frequency) {
                warning!(sys, "{}: unknown frequency; the handler is disabled", handler.path);
            }
        } else {
            let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
            handler.due = context.first_boot;
            handler.types = lines
                .by_ref()
                .filter(|line| {
                    let always = line.strip_prefix("frequency=");
                    handler.due |= always == Some("always");
                    always.is_none()
                })
                .map(str::to_ascii_lowercase)
                .collect();
        }
        if handler.types.is_empty() {
            return Err(Error::new("list_types returned no types"));
        }
        debug!(sys, "{} handles {}", handler.path, handler.types.join(", "));
        if handler.due {
            match handler.python {
                Some(_) => handler.calls.push(call("__begin__", None, Value::Null)),
                None => handler.run_part(sys, "__begin__", "", Vec::new(), &Value::Null, context)?,
            }
        }
        for kind in std::mem::take(&mut handler.types) {
            self.of_type.insert(kind, self.found.len());
        }
        self.found.push(handler);
        Ok(())
    }

    /// Returns whether a custom handler handles parts of this type.
    pub fn handles(&self, kind: &str) -> bool {
        self.of_type.contains_key(kind)
    }

    /// Passes a part to the handler of its type: the one that was loaded last, which also replaces a built-in handler.
    /// Returns `None` if no custom handler handles the type.
    ///
    /// # Errors
    ///
    /// Fails if the handler is a program and cannot be run or fails.
    pub fn handle(
        &mut self,
        sys: &System,
        part: &Part<'_>,
        name: &str,
        context: HandlerContext<'_>,
    ) -> Option<Result<()>> {
        let kind = part.content_type.as_str();
        let handler = self.found.get_mut(*self.of_type.get(kind)?)?;
        if !handler.due {
            return Some(Ok(()));
        }
        let headers = part.headers.iter().map(|(name, value)| (name.to_string(), value.into()));
        let headers: serde_json::Map<String, Value> = sort::collect(headers);
        Some(match handler.python {
            Some(_) => {
                handler.calls.push(call(kind, Some((&part.filename, &part.payload)), Value::Object(headers)));
                Ok(())
            }
            None => {
                handler.run_part(sys, kind, name, part.payload.to_vec(), &Value::Object(headers), context)
            }
        })
    }

    /// Ends the source: calls the handlers with `__end__` and returns their failures.
    pub fn finish(&mut self, sys: &System, context: HandlerContext<'_>) -> Vec<Error> {
        let mut failed = Vec::new();
        // A handler whose types have all been replaced by later handlers is not called with `__end__`.
        let mut is_left = vec![false; self.found.len()];
        self.of_type.values().for_each(|at| is_left[*at] = true);
        for (at, handler) in self.found.iter_mut().enumerate().filter(|(_, handler)| handler.due) {
            let done = match handler.python {
                Some(_) => {
                    if is_left[at] {
                        handler.calls.push(call("__end__", None, Value::Null));
                    }
                    let calls = std::mem::take(&mut handler.calls);
                    let work = json!({"calls": calls, "frequency": context.frequency(), "data": context.instance_data});
                    let command = handler.python_command("handle").accept_all().stdin(work.to_string());
                    handler.run(sys, command, context).and_then(|done| {
                        // Its output goes to the stage's output, like that of any other user program.
                        if !done.stdout.trim_ascii().is_empty() {
                            sys.print(done.text().trim_end());
                        }
                        handler
                            .check_calls(&done)
                            .map_err(|e| Error::new(format!("part handler {}: {e}", handler.path)))
                    })
                }
                None if !is_left[at] => Ok(()),
                None => handler.run_part(sys, "__end__", "", Vec::new(), &Value::Null, context),
            };
            failed.extend(done.err());
        }
        failed
    }
}

impl PartHandler {
    /// Runs a command of the handler in what is left of the time of all handlers.
    fn run(&self, sys: &System, command: Command, context: HandlerContext<'_>) -> Result<Output> {
        let (spent, begin) = (self.spent.get(), sys.clock().elapsed());
        let left = context.timeout.saturating_sub(spent);
        if left.is_zero() {
            return Err(Error::new(
                "not called: the part handlers have used the time of 'timeouts: {script: …}'",
            ));
        }
        let done = sys.run(&command.timeout(left));
        self.spent.set(spent + (sys.clock().elapsed() - begin));
        done
    }

    fn python_command(&self, task: &str) -> Command {
        let python = self.python.as_deref().unwrap_or("python3");
        let [of_instance, of_machine] = &self.folders;
        let command = Command::new([python, "-c", SHIM, &self.path, task, of_instance, of_machine]);
        command.redacted(format!("{python} {} ({task})", self.path))
    }

    /// Returns the error that the shim reports for failed calls, or that it did not reach its end.
    fn check_calls(&self, done: &Output) -> Result<()> {
        failure(done).map_or(Ok(()), Err)?;
        let reported = String::from_utf8_lossy(&done.stderr);
        match reported.lines().any(|line| line == ALL_CALLS_MADE) {
            true => Ok(()),
            false => Err(Error::new("ended its process; further parts were not handled")),
        }
    }

    fn command(&self, words: &[&str], context: HandlerContext<'_>) -> Command {
        let argv = [self.path.as_str()].into_iter().chain(words.iter().copied());
        let command = Command::new(argv).env("CLOUD_INIT_FREQUENCY", context.frequency());
        command.env("CLOUD_INIT_INSTANCE_DATA", context.instance_data)
    }

    fn run_part(
        &self,
        sys: &System,
        kind: &str,
        name: &str,
        payload: Vec<u8>,
        headers: &Value,
        context: HandlerContext<'_>,
    ) -> Result<()> {
        let command =
            self.command(&["handle_part", kind, name], context).stdin(payload).output(OutputMode::Inherit);
        self.run(sys, command.env("CLOUD_INIT_HEADERS", headers.to_string()), context).map(drop)
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

/// Returns what is wrong with a part handler in Python, as a boot reports it, without running it. `None` if nothing is, or if `sys`
/// has no python3.
pub fn check_part_handler(sys: &System, payload: &[u8]) -> Option<String> {
    let is_checked = payload.len() <= MAX_CHECKED && is_python(strip_handler_header(payload));
    let python = sys.which("python3").filter(|_| is_checked)?;
    let command = Command::new([&*python, "-I", "-c", SHIM, "part-handler", "check"]).stdin(payload);
    let done = sys.run(&command.timeout(CHECK_TIMEOUT).accept_all()).ok()?;
    failure(&done).map(|e| e.to_string())
}

/// Returns the error that the shim reports.
fn failure(done: &Output) -> Option<Error> {
    let stderr = String::from_utf8_lossy(&done.stderr);
    let last = stderr.lines().last().filter(|_| done.code == 3);
    (done.code != 0).then(|| Error::new(last.unwrap_or("could not be run")))
}

/// Returns the program that runs a handler; `None` if it is a program itself. Fails if python3 is not installed.
fn python_for(sys: &System, path: &str) -> Result<Option<String>> {
    if !path.ends_with(".py") {
        return Ok(None);
    }
    sys.which("python3").map(Some).ok_or_else(|| Error::new("python3 is not installed"))
}

/// Strips the header line of a handler.
fn strip_handler_header(payload: &[u8]) -> &[u8] {
    let payload = payload.trim_ascii_start();
    match detect::detect(payload) {
        Some(detect::PART_HANDLER) => {
            let end = payload.iter().position(|b| *b == b'\n').map_or(payload.len(), |i| i + 1);
            payload[end..].trim_ascii_start()
        }
        _ => payload,
    }
}

/// Returns whether a handler is written in Python: that is the default if it names no other interpreter.
fn is_python(body: &[u8]) -> bool {
    let line = body.split(|b| *b == b'\n').next().unwrap_or_default();
    !line.starts_with(b"#!") || line.windows(6).any(|w| w == b"python")
}
