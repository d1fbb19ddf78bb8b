//! Restarts and reboots that changed files require, and the wait for services.

pub mod activation;
pub mod reboot;
pub mod snap_seeding;
