//! Users, groups and their SSH keys, for the modules that create accounts or change them.

pub mod authorized_keys;
pub mod key_data;
pub mod sshd_config;
pub mod user_keys;
pub mod users;
