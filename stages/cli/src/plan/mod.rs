//! `cloud-init plan`: shows what the next boot would do. The stages run normally, but write to an overlay (see
//! `system::System::dry_run`) and report their effects; this module reads and shows the reports.
//!
//! `cloud-init apply --root DIR` runs the same stages on an image.

mod apply;
mod boot;
mod diff;
mod dry_run;
mod show;
mod unified;

use std::process::ExitCode;

use serde_json::Value;
use system::{Result, warning};

use crate::arguments::{Format, GlobalOptions, Plan};
use crate::machine::Machine;
use dry_run::{STAGE_TIMEOUT, has_errors};

pub use apply::run as apply;
pub use dry_run::{Request, plan_stages};
pub use show::all_effects;

pub fn run(machine: &Machine, global: &GlobalOptions, args: &Plan) -> ExitCode {
    exit_code(plan(machine, global, args))
}

/// Returns the exit code of a plan or of `apply`, which return whether a stage ended with errors.
fn exit_code(done: Result<bool>) -> ExitCode {
    match done {
        Ok(has_errors) => ExitCode::from(u8::from(has_errors)),
        Err(e) => crate::exit::exit_code("error: ", Err(e)),
    }
}

/// Prints the plan. Returns whether the boot would end with errors.
fn plan(machine: &Machine, global: &GlobalOptions, args: &Plan) -> Result<bool> {
    if !Machine::is_root() {
        warning!(machine.sys, "not root: files that only root may read are not part of this plan");
    }
    if !machine.sys.exists("/etc/cloud/cloud.cfg") {
        warning!(
            machine.sys,
            "/etc/cloud/cloud.cfg does not exist: no module is listed, so user-data has hardly any effect; plan it in a \
             root of the distribution that has the package: cloud-init --root DIR plan FILE"
        );
    }
    let user_data = args.user_data.as_ref().or(args.file.as_ref());
    let request = Request {
        user_data: user_data.cloned(),
        id: "i-plan",
        datasource: args.datasource.clone(),
        fresh: args.fresh || user_data.is_some(),
        instance_id: None,
    };
    let show = |view: &show::PlanView<'_>, reports: &[Value]| {
        let instance = global.debug.then(|| view.instance_data());
        match (args.format, instance) {
            (Format::Json, instance) => view.json(reports, instance),
            (Format::Text, None) => view.text(reports),
            (Format::Text, Some(data)) => {
                format!("{}instance data\n{}", view.text(reports), state::json_text(&data["v1"], 2))
            }
        }
    };
    let (text, reports) = plan_stages(machine, global, &request, (STAGE_TIMEOUT, args.sensitive), show)?;
    print!("{text}");
    Ok(has_errors(&reports))
}
