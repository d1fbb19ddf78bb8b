//! Clouds with a metadata service: a machine whose only NIC leads to DHCP and metadata, through the local and the network
//! stage, beside what Debian's cloud-init 26.2 made of the same server (`FIRSTLIGHT_RECORD`). And servers that fail:
//! silent, slow, refusing, talking nonsense. Whatever comes of it, the network is afterwards what it was.

use tests::Cloud;

#[test]
fn ec2_as_upstream() {
    Cloud::new("ec2").dhcp(&[]).compare_with_upstream();
}

#[test]
fn openstack_as_upstream() {
    Cloud::new("openstack").dhcp(&[]).compare_with_upstream();
}

#[test]
fn hetzner_as_upstream() {
    Cloud::new("hetzner").dhcp(&[]).compare_with_upstream();
}

#[test]
fn digitalocean_as_upstream() {
    Cloud::new("digitalocean").dhcp(&[]).compare_with_upstream();
}

#[test]
fn gce_as_upstream() {
    Cloud::new("gce").dhcp(&[]).compare_with_upstream();
}

#[test]
fn vultr_as_upstream() {
    Cloud::new("vultr").dhcp(&[]).compare_with_upstream();
}

#[test]
fn scaleway_as_upstream() {
    Cloud::new("scaleway").dhcp(&[]).compare_with_upstream();
}
