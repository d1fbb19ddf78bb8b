//! Shared by the four stages: arguments, logging, output, status, and the steps that several stages take. Each
//! stage's `main` is the list of its steps: functions on [`Boot`], the machine with its configuration, and [`Record`], what the
//! stage reports of itself. A stage starts with [`run`].

#![warn(missing_docs)]

mod args;
mod boot;
mod catch_up;
mod consume;
mod di_report;
mod error_prefix;
mod events;
mod find;
mod findings;
mod found;
mod hooks;
mod hotplug;
mod interrupted;
mod journal;
mod kernel_url;
mod log_findings;
mod logging;
mod measure;
mod module_list;
mod name;
mod net_info;
mod network;
mod own_step;
mod plan;
mod prepare;
mod reporting;
mod search_report;
mod settings;
mod stage;
mod status;
mod undecided;
mod without_search;

pub use args::{Args, Hotplug, Single, Task};
pub use boot::Boot;
pub use catch_up::{catch_up, run_catch_up};
pub use find::{activate, cached_instance, find_instance};
pub use found::{FoundInstance, NotFound};
pub use hooks::process_user_data;
pub use hotplug::{hotplug, queue_missed_nics};
pub use module_list::{run_modules, run_single};
pub use name::{Mode, StageName};
pub use net_info::print_network;
pub use network::{apply_network, apply_network_without_instance};
pub use prepare::{
    cannot_apply_message, is_completed_by_local, prepare_directories, remove_boot_finished,
    report_no_datasource, report_no_instance, set_hostname,
};
pub use stage::{run, run_guarded};
pub use status::Record;
pub use undecided::{Guard, decide};

/// The allocator: see docs/small-binaries.md, "Code".
#[global_allocator]
static MEMORY: memory::Memory = memory::Memory::empty();
