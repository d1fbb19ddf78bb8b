//! Identification of the cloud at early boot: decides from what is on the machine alone, without a network, whether
//! cloud-init has anything to do and for which datasources. The programs ds-identify and cloud-init-generator call it,
//! and the local stage calls [`second_look`].
//!
//! One direction: [`clouds`] (data) and `facts` (read lazily) are input of `checks`, whose verdicts `select` combines
//! under a policy; `run` writes the result, `enable` tells systemd, `second_look` repeats the identification in the local
//! stage, `explain` prints it for people.

#![warn(missing_docs)]

mod checks;
mod command;
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod cpuid;
mod dmi_fields;
mod dump;
mod enable;
mod explain;
mod facts;
mod file_systems;
pub mod fuzzing;
mod log;
mod lookup;
mod nic_drivers;
mod paths;
mod pending;
mod plan;
mod policy;
mod presets;
mod programs;
mod run;
pub mod second_look;
mod settings;
mod text;
mod undecided;
mod verdict;
mod virt;

pub use clouds;
pub use programs::{ds_identify, explain, generate};
pub use verdict::Enablement;
