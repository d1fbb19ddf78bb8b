//! `devel`: the tools for people who write configurations and images.

use std::process::ExitCode;

use crate::arguments::{Devel, DevelCommand};
use crate::machine::Machine;
use crate::net_convert;

pub fn run(machine: &Machine, args: Devel) -> ExitCode {
    match args.command {
        DevelCommand::NetConvert(args) => net_convert::run(machine, &args),
    }
}
