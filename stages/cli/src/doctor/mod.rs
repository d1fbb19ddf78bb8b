//! `doctor`: one page for a machine that did not come up as expected. It only reads, works on another root too, and reports
//! what it could not read.

mod boot_log;
mod clock;
pub mod configuration;
mod disk;
mod history;
mod identification;
mod next_boot;
mod page;
mod results;

use std::process::ExitCode;

use crate::arguments::{Doctor, Format, GlobalOptions};
use crate::machine::Machine;
use boot_log::BootLog;
use page::Page;

pub fn run(machine: &Machine, global: &GlobalOptions, args: &Doctor) -> ExitCode {
    let mut page = Page::default();
    let log = BootLog::read(machine, &mut page.findings.unread);
    identification::section(machine, global, &mut page);
    history::datasources(&log, &mut page);
    configuration::section(machine, &mut page);
    history::applied(&log, &mut page);
    results::find(machine, &log, &mut page);
    let state = crate::state_files::check(machine);
    for finding in state.all {
        let remedy = if finding.repair.is_some() { "cloud-init state repair" } else { &finding.remedy };
        page.findings.add(finding.severity, finding.place, finding.problem, remedy);
    }
    page.findings.unread.extend(state.unread);
    disk::section(machine, &mut page);
    clock::section(machine, &log, &mut page);
    history::changes(machine, &log, &mut page);
    if !args.no_plan {
        next_boot::section(machine, global, &mut page);
    }
    sort::sort(&mut page.findings.unread);
    page.findings.unread.dedup();
    sort::sort_by_key(&mut page.findings.all, |finding| finding.severity);
    if args.format == Format::Json {
        print!("{}", state::json_text(&page.json(), 2));
    } else {
        print!("{}", page.text());
    }
    ExitCode::from(u8::from(page.findings.has_problem()))
}
