//! Block devices, partition tables, mounts and swap.

pub mod block_device;
pub mod data_loss_notice;
pub mod device_aliases;
pub mod fstab;
pub mod lvm;
pub mod metadata_devices;
pub mod partition_table;
pub mod swap;
