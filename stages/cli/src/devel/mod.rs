//! `devel`: what authors of user-data and of images need.

mod make_mime;
mod render;

use std::process::ExitCode;

use crate::arguments::{Devel, DevelCommand, GlobalOptions, HotplugAction};
use crate::machine::Machine;
use crate::{net_convert, stages};

pub fn run(machine: &Machine, global: &GlobalOptions, args: Devel) -> ExitCode {
    match args.command {
        DevelCommand::MakeMime(args) => make_mime::run(machine, &args),
        DevelCommand::NetConvert(args) => net_convert::run(machine, &args),
        DevelCommand::Render(args) => render::run(machine, &args),
        // What a datasource says is read by the network stage alone, after the boot too.
        DevelCommand::HotplugHook(hook) => match hook.action {
            HotplugAction::Query(_) => stages::network_stage(global, &["--hotplug-query"]),
            HotplugAction::Enable(_) => stages::network_stage(global, &["--hotplug-enable"]),
            HotplugAction::Handle(handle) => {
                let event = format!("{}:{}", handle.udevaction, handle.devpath);
                stages::network_stage(global, &["--hotplug-handle", &event])
            }
        },
    }
}
