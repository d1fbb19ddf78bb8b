//! `features`: lists the features that a tool may check for before it writes a configuration.

use std::process::ExitCode;

pub fn run() -> ExitCode {
    println!("NETWORK_CONFIG_V1\nNETWORK_CONFIG_V2");
    ExitCode::SUCCESS
}
