//! The scripts of users and vendors: how they are written and run, and what their exit codes request.

pub mod exit_codes;
pub mod run_parts;
pub mod script_reruns;
pub mod shell;
