//! What the four stages have in common: arguments, logging, output, status, and the steps that more than one of
//! them takes. Each stage's `main` is the list of its steps.

mod args;
mod consume;
mod find;
mod hotplug;
mod kernel_url;
mod logging;
mod module_list;
mod network;
mod plan;
mod platform;
mod prepare;
mod stage;
mod undecided;

pub use args::{Args, Hotplug, Single};
pub use find::FoundInstance;
pub use prepare::cannot_apply_message;
pub use stage::{Stage, StageName, run, run_guarded};
pub use undecided::decide;

/// Not the C library's: musl's maps and unmaps pages for every few hundred values, a third of what a program costs that
/// lives for milliseconds.
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
