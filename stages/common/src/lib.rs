//! What the four stages share: arguments, logging, output, status, and the steps that more than one of them takes. Each
//! stage's `main` is the list of its steps, which are methods of [`Stage`]. A stage starts with [`run`].

#![warn(missing_docs)]

mod args;
mod consume;
mod di_report;
mod error_prefix;
mod events;
mod find;
mod findings;
mod hooks;
mod hotplug;
mod interrupted;
mod kernel_url;
mod layers;
mod log_findings;
mod logging;
mod machine;
mod measure;
mod module_list;
mod name;
mod net_info;
mod network;
mod plan;
mod platform;
mod prepare;
mod reporting;
mod search_report;
mod settings;
mod stage;
mod status;
mod undecided;
mod without_search;

pub use args::{Args, Hotplug, Single, Task};
pub use find::FoundInstance;
pub use name::StageName;
pub use prepare::cannot_apply_message;
pub use stage::{Stage, run, run_guarded};
pub use undecided::{Guard, decide};

/// The allocator: see docs/small-binaries.md, "Code".
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
