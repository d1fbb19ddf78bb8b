//! The datasources' checks: facts in, verdict with its reason out. None of them writes or waits.

pub mod altcloud;
pub mod configdrive;
pub mod ec2;
pub mod firmware;
pub mod marker;
pub mod nocloud;
pub mod openstack;
pub mod ovf;
pub mod vmware;
pub mod wsl;
