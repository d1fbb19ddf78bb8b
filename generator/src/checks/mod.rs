//! The datasources' checks: facts in, verdict with its reason out. None of them writes or waits.

pub mod configdrive;
pub mod ec2;
pub mod firmware;
pub mod marker;
pub mod nocloud;
pub mod openstack;
