//! `cloud-init plan`: the next boot decided, and nothing done. The stages themselves run, each with a scratch
//! directory over the machine that takes its changes (see `system::System::planning`), and leave an account of
//! their effects; here the accounts are read and shown.
//!
//! `cloud-init apply --root DIR` starts the same stages on an image's tree and lets them do it.

mod apply;
mod diff;
mod show;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::{Value, json};
use system::{Result, ResultExt, System, Write};

use crate::arguments::{Plan, Top};
use crate::machine::Machine;
use system::libexec;

pub use apply::run as apply;

/// Programs of the stages, in the order of a boot, by the names that units and status have for them.
const STAGES: [(&str, &str); 4] = [
    ("cloud-init-local", "init-local"),
    ("cloud-init-network", "init"),
    ("cloud-init-config", "modules-config"),
    ("cloud-init-final", "modules-final"),
];

/// How ds-identify ends when cloud-init is to be disabled.
const NOT_FOUND: i32 = 1;

/// Where a plan's or an image's user-data is read from.
const SEED: &str = "seed/nocloud";

pub fn run(machine: &Machine, top: &Top, args: &Plan) -> ExitCode {
    match plan(machine, top, args) {
        Ok(has_errors) => ExitCode::from(u8::from(has_errors)),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The directory that takes a plan's changes; it goes when the plan is shown, for it holds secrets.
struct Scratch(PathBuf);

impl Scratch {
    fn new(sys: &System) -> Result<Scratch> {
        // Process ids repeat in other namespaces that share the directory.
        let chance: String = sys.random_bytes(8)?.iter().map(|b| format!("{b:02x}")).collect();
        let path = std::env::temp_dir().join(format!("cloud-init-plan.{chance}"));
        system::make_scratch(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether the boot would end with errors.
fn plan(machine: &Machine, top: &Top, args: &Plan) -> Result<bool> {
    let scratch = Scratch::new(&machine.sys)?;
    let sys = System::planning(&top.root, &scratch.0);
    // A boot begins with an empty /run.
    sys.remove_tree(machine.layout.run(""))?;
    if args.fresh || args.user_data.is_some() {
        forget(&sys, machine)?;
    }
    if let Some(file) = &args.user_data {
        seed(&sys, machine, file, "i-plan")?;
    }
    let wanted = args.datasource.clone().or(args.user_data.as_ref().map(|_| "NoCloud".to_string()));
    let disabled = match wanted {
        Some(name) => choose(&sys, machine, &name).map(|()| false)?,
        None => !identify(top, &scratch.0.join("files/run")),
    };
    let mut accounts = Vec::new();
    if disabled {
        let why = "cloud-init would be disabled: no datasource was found (query --identify says why)";
        accounts.push(json!({"stage": "generator", "errors": [], "warnings": [why], "effects": []}));
    }
    for (program, stage) in STAGES.into_iter().filter(|_| !disabled) {
        accounts.push(account(top, &scratch.0, program, stage)?);
    }
    let shown =
        show::Shown { real: &machine.sys, planned: &sys, layout: &machine.layout, sensitive: args.sensitive };
    if args.format == "json" {
        println!("{}", shown.json(&accounts));
    } else {
        print!("{}", shown.text(&accounts));
    }
    let errors = |account: &Value| account["errors"].as_array().is_some_and(|e| !e.is_empty());
    Ok(accounts.iter().any(errors))
}

/// As if no instance had ever been here.
fn forget(sys: &System, machine: &Machine) -> Result<()> {
    for name in ["instance", "instances", "data", "sem"] {
        sys.remove_tree(machine.layout.cloud(name))?;
    }
    Ok(())
}

/// Puts user-data where NoCloud finds it, with an instance of its own.
fn seed(sys: &System, machine: &Machine, file: &str, id: &str) -> Result<()> {
    let bytes = std::fs::read(file).doing(format_args!("reading {file}"))?;
    let at = |name: &str| machine.layout.cloud(&format!("{SEED}/{name}"));
    sys.write(at("meta-data"), format!("instance-id: {id}\n"), Write::default())?;
    sys.write(at("user-data"), bytes, Write::secret())?;
    Ok(())
}

/// What the generator would write for one datasource.
fn choose(sys: &System, machine: &Machine, name: &str) -> Result<()> {
    let text = format!("datasource_list: [ {name}, None ]\n");
    sys.write(machine.layout.run("cloud.cfg"), text, Write::default()).map(drop)
}

/// The generator's judgement, its files written to `run` instead of the machine's /run: whether cloud-init has
/// anything to do.
fn identify(top: &Top, run: &Path) -> bool {
    let Some(program) = libexec::find("ds-identify").or_else(|| libexec::find("cloud-init-generator")) else {
        return true;
    };
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    command.arg0("ds-identify").env("PATH_ROOT", &top.root).env("PATH_RUN", run);
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    // Without a verdict the stages look for every datasource of the configuration, as they do at a boot.
    ended.map_or(true, |status| status.code() != Some(NOT_FOUND))
}

/// Runs one stage of the plan and reads its account.
fn account(top: &Top, scratch: &Path, program: &str, stage: &str) -> Result<Value> {
    let Some(path) = libexec::find(program) else {
        return Err(system::Error::new(format!("{program} is not installed")));
    };
    let mut command = Command::new(path);
    command.args(["--root", &top.root, "--plan"]).arg(scratch);
    let output = command.stdin(Stdio::null()).output().doing(format_args!("starting {program}"))?;
    let Ok(bytes) = std::fs::read(scratch.join(format!("{stage}.json"))) else {
        // Disabled, or without a datasource: it says why and does nothing.
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().to_string();
        return Ok(json!({"stage": stage, "errors": [], "warnings": [said], "effects": []}));
    };
    serde_json::from_slice(&bytes).map_err(|e| system::Error::new(format!("{program}: its account: {e}")))
}
