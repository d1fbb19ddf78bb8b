//! The state on disk, by which the stages communicate. Every file is text or JSON that a person can read; it is written
//! whole, with its final mode from the first byte. [`Layout`] has the paths, [`Instance`] the datasource cache, [`Status`]
//! status.json and result.json, and [`acquire`] the semaphores. This crate knows no cloud and no module.

#![warn(missing_docs)]

mod instance;
mod instance_data;
mod json;
pub mod layout;
mod network_format;
mod obstacle;
mod previous;
mod previous_id;
mod secret;
mod semaphore;
mod status;

pub use instance::{
    Blobs, Cached, DeviceSearch, DsMode, HostKeyService, Instance, NetworkConfig, NetworkSource,
};
pub use instance_data::{
    SysInfo, cloud_id, fallback_instance_data, features, instance_data, update_instance_data,
    write_instance_data,
};
pub use json::{parse as parse_json, read as read_json, take, to_text as json_text};
pub use layout::Layout;
pub use network_format::NetworkFormat;
pub use obstacle::{clear_directory, clear_path, create_directory, prepare_run_directory, remove_file};
pub use previous::{Previous, instancify};
pub use previous_id::NO_PREVIOUS_ID;
pub use secret::has_secret_name;
pub use semaphore::{
    Frequency, Progress, acquire, confirm, confirm_ended, has_run, has_unconfirmed, is_network_due,
    mark_finished, mark_network_due, mark_network_written, mark_started, progress, release, unfinished,
};
pub use status::{ACTIVITY_FILE, HOTPLUG, STAGES, StageStatus, Status, boot_id};
