//! The state on disk: the only thing that the stages share. Every file is text or JSON that a person can read,
//! written whole, with its final mode from its first byte. Knows no cloud and no module.

mod instance;
mod instance_data;
mod json;
mod layout;
mod previous;
mod secret;
mod semaphore;
mod status;

pub use instance::{Cached, Instance, Network, Raw};
pub use instance_data::{
    Platform, cloud_id, complete_instance_data, features, instance_data_of_none, write_instance_data,
};
pub use json::to_text as json_text;
pub use layout::Layout;
pub use previous::{Previous, instancify};
pub use semaphore::{Frequency, Progress, acquire, begin, finish, has_run, progress, release, started};
pub use status::{HOTPLUG, STAGES, StageStatus, Status};
