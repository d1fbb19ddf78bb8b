//! `devel`: what authors of user-data and of images need.

mod make_mime;
mod render;

use std::process::ExitCode;

use crate::arguments::{DevelCommand, GlobalOptions, Hotplug};
use crate::machine::Machine;
use crate::{net_convert, stages};

pub fn run(machine: &Machine, global: &GlobalOptions, command: &DevelCommand) -> ExitCode {
    match command {
        DevelCommand::MakeMime(args) => make_mime::run(machine, args),
        DevelCommand::NetConvert(args) => net_convert::run(machine, args),
        DevelCommand::Render(args) => render::run(machine, args),
        // What a datasource says is read by the network stage alone, after the boot too.
        DevelCommand::Hotplug(action) => match action {
            Hotplug::Query => stages::network_stage(global, &["--hotplug-query"]),
            Hotplug::Enable => stages::network_stage(global, &["--hotplug-enable"]),
            Hotplug::Handle { devpath, udevaction } => {
                let event = format!("{udevaction}:{devpath}");
                stages::network_stage(global, &["--hotplug-handle", &event])
            }
        },
    }
}
