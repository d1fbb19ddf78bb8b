//! Runs the stages of a boot in a dry run, and reads their reports.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use config::provenance::replaced_lists;
use serde_json::{Value, json};
use system::{Command, PlanDir, Result, System, WriteOptions};

use super::boot::{INTERRUPTED_CODES, host, identify, select_datasource, wanted_datasource, write_seed};
use super::show::PlanView;
use crate::analyze::plot::requests;
use crate::arguments::GlobalOptions;
use crate::json;
use crate::machine::Machine;
use crate::schema::{PART_LAYERS, configs, merge_parts, shell};
use crate::stage_table::STAGES;
use crate::stages::own_program;

/// The limit for a stage of a plan, which runs no program; its downloads have their own limits.
// Wait: plan | one stage | -
pub const STAGE_TIMEOUT: Duration = Duration::from_secs(600);

/// The subject of a plan.
#[derive(Default)]
pub struct Request {
    /// Plan the boot of a new instance with the user-data in this file.
    pub user_data: Option<String>,
    /// The instance-id of that user-data.
    pub id: &'static str,
    /// The datasource; the detected one by default.
    pub datasource: Option<String>,
    /// Plan the boot of a new instance.
    pub fresh: bool,
    /// Plan with this cached instance, without asking its datasource.
    pub instance_id: Option<String>,
}

/// Returns whether a stage would end with errors.
pub fn has_errors(reports: &[Value]) -> bool {
    reports.iter().any(|report| json::items(report, "errors").next().is_some())
}

/// Plans a boot. Returns what `show` makes of the plan, whose files exist until then, and the reports of the stages.
pub fn plan_stages(
    machine: &Machine,
    global: &GlobalOptions,
    request: &Request,
    (timeout, sensitive): (Duration, bool),
    show: impl FnOnce(&PlanView<'_>, &[Value]) -> String,
) -> Result<(String, Vec<Value>)> {
    let wanted = wanted_datasource(request.datasource.as_deref(), request.user_data.as_deref())?;
    // An interrupt must not end this process before the directory is removed.
    let _guard = system::block_interrupts();
    let plan_dir = PlanDir::new(&machine.sys)?;
    let sys = System::dry_run(&global.root, plan_dir.path());
    // A boot starts with an empty /run.
    sys.remove_dir_all(machine.layout.run(""))?;
    if let Some(id) = &request.instance_id {
        // As if an earlier stage of this boot had found it.
        sys.write(machine.layout.boot_instance_id(), id, WriteOptions::default())?;
    }
    if request.fresh {
        clear_instance(&sys, machine)?;
    }
    if let Some(file) = &request.user_data {
        write_seed(&sys, machine, file, request.id)?;
    }
    // By a file or the kernel command line. With user-data or a datasource that is given, the question is what they would do.
    let (code, setting) = crate::status::boot_code(machine);
    let is_off = code.starts_with("disabled-") && !code.ends_with("generator");
    let not_found = match &wanted {
        Some(name) => select_datasource(&sys, machine, name).map(|()| false)?,
        None => !is_off && !identify(global, &plan_dir.path().join("files/run")),
    };
    let mut reports = Vec::new();
    let disabled = not_found || (is_off && wanted.is_none());
    if not_found || is_off {
        let why = match (is_off, disabled) {
            (true, true) => format!("{setting}: nothing would run"),
            (true, false) => format!("{setting}: nothing of what follows would run"),
            (false, _) => "cloud-init would be disabled: no datasource found (see query --identify)".into(),
        };
        reports.push(json!({"stage": "generator", "errors": [], "warnings": [why], "effects": []}));
    }
    for stage in STAGES.iter().filter(|_| !disabled) {
        reports.push(run_stage(global, plan_dir.path(), stage.program, stage.key, timeout)?);
    }
    add_script_problems(&sys, &mut reports);
    add_replaced_lists(machine, &sys, &mut reports);
    let view = PlanView { real: &machine.sys, planned: &sys, layout: &machine.layout, sensitive };
    // The caller prints after the directory is removed, as a closed pipe would end this process.
    Ok((show(&view, &reports), reports))
}

/// Adds warnings about the scripts that the plan writes and that their shells do not accept.
fn add_script_problems(sys: &System, reports: &mut [Value]) {
    let mut time = shell::TIMEOUT;
    for report in reports {
        let scripts = json::items(report, "effects").filter(|effect| effect["do"] == "write");
        let paths: BTreeSet<&str> = sort::collect(scripts.map(|effect| json::text(effect, "path")));
        let warnings: Vec<Value> = paths
            .into_iter()
            .filter_map(|path| {
                let (line, problem) = shell::problem(&sys.read(path).ok()?, &mut time)?;
                Some(format!("{path}, line {line}: {problem}").into())
            })
            .collect();
        if let Some(all) = report["warnings"].as_array_mut() {
            all.extend(warnings);
        }
    }
}

/// Adds warnings about lists of a part of the user-data that another part replaces.
fn add_replaced_lists(machine: &Machine, sys: &System, reports: &mut [Value]) {
    let (_, file, name) = PART_LAYERS[2];
    let Ok(bytes) = sys.read(machine.layout.instance(file)) else { return };
    let Ok(parts) = configs(machine, name, &bytes) else { return };
    let found = replaced_lists(&merge_parts(&parts), parts.iter().map(|(part, _)| part));
    let of_merge = reports.iter_mut().find(|report| report["stage"] == "init");
    if let Some(all) = of_merge.and_then(|report| report["warnings"].as_array_mut()) {
        all.extend(found.iter().map(|finding| finding.to_string().into()));
    }
}

/// Removes the state of earlier instances.
fn clear_instance(sys: &System, machine: &Machine) -> Result<()> {
    for name in ["instance", "instances", "data", "sem"] {
        sys.remove_dir_all(machine.layout.cloud(name))?;
    }
    Ok(())
}

/// Runs one stage of the plan and reads its report. Fails if the stage is not installed or was interrupted.
fn run_stage(
    global: &GlobalOptions,
    plan_dir: &Path,
    program: &str,
    stage: &str,
    timeout: Duration,
) -> Result<Value> {
    let path = own_program(program)?;
    let command =
        Command::new([path.as_os_str()]).arg("--root").arg(&global.root).arg("--plan").arg(plan_dir);
    let command = if global.debug { command.arg("--debug") } else { command };
    let nothing = |errors: &[String], warnings: &[String]| json!({"stage": stage, "errors": errors, "warnings": warnings, "effects": []});
    let ended = match host().run(&command.timeout(timeout).accept_all().kill_on_exit()) {
        // Ctrl-C, or the terminal was closed.
        Ok(ended) if INTERRUPTED_CODES.contains(&ended.code) => {
            return Err(system::Error::new("interrupted"));
        }
        Ok(ended) => ended,
        Err(e) => return Ok(nothing(&[e.to_string()], &[])),
    };
    let Ok(bytes) = host().read(plan_dir.join(format!("{stage}.json"))) else {
        // Disabled, or without a datasource: the stage printed the reason.
        let output = [ended.stdout, ended.stderr].concat();
        return Ok(nothing(&[], &[String::from_utf8_lossy(&output).trim().to_string()]));
    };
    let mut report: Value = state::parse_json(&format!("{program}: report"), &bytes)?;
    if global.debug {
        let now = host().clock().wall().as_micros() as i64;
        let request = |(url, millis, result)| json!({"url": url, "ms": millis, "result": result});
        let log = String::from_utf8_lossy(&ended.stderr);
        report["requests"] = requests(&log, now).into_iter().map(request).collect();
    }
    Ok(report)
}
