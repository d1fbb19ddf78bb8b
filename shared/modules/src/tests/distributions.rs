//! The distributions of modules that do not support all of them.

use distro::Distro;

use super::packaged_lists;
use crate::*;

/// The distributions that upstream's documentation of a module names, and `suse` with those of its family. A module that
/// upstream does not have needs no line here.
#[test]
fn distributions_of_restricted_modules() {
    let restricted = [
        (&apt_configure::MODULE, "debian raspberry-pi-os ubuntu"),
        (&apt_pipelining::MODULE, "debian raspberry-pi-os ubuntu"),
        (&byobu::MODULE, "debian raspberry-pi-os ubuntu"),
        (&fan::MODULE, "ubuntu"),
        (
            &keyboard::MODULE,
            "almalinux alpine amazon arch azurelinux centos cloudlinux debian eurolinux fedora mariner miraclelinux \
             openmandriva opensuse opensuse-leap opensuse-microos opensuse-tumbleweed photon raspberry-pi-os rhel \
             rocky sle-micro sle_hpc sles suse ubuntu virtuozzo",
        ),
        (&landscape::MODULE, "ubuntu"),
        (&lxd::MODULE, "ubuntu"),
        (&raspberry_pi::MODULE, "raspberry-pi-os"),
        (
            &resolv_conf::MODULE,
            "alpine azurelinux fedora mariner openeuler opensuse opensuse-leap opensuse-microos \
             opensuse-tumbleweed photon rhel sle-micro sle_hpc sles suse",
        ),
        (&ssh_import_id::MODULE, "alpine cos debian raspberry-pi-os ubuntu"),
        (&ubuntu_autoinstall::MODULE, "ubuntu"),
        (&ubuntu_drivers::MODULE, "ubuntu"),
        (&ubuntu_pro::MODULE, "ubuntu"),
        (&wireguard::MODULE, "ubuntu"),
        (
            &ca_certs::MODULE,
            "almalinux alpine amazon aosc centos cloudlinux debian fedora opensuse opensuse-leap opensuse-microos \
             opensuse-tumbleweed photon raspberry-pi-os rhel rocky sle-micro sle_hpc sles suse ubuntu",
        ),
        (
            &ntp::MODULE,
            "almalinux alpine aosc azurelinux centos cloudlinux cos debian eurolinux fedora mariner miraclelinux \
             OpenCloudOS openeuler openmandriva opensuse opensuse-leap opensuse-microos opensuse-tumbleweed \
             photon raspberry-pi-os rhel rocky sle-micro sle_hpc sles suse TencentOS ubuntu virtuozzo",
        ),
        (&apk_configure::MODULE, "alpine"),
        (&grub_dpkg::MODULE, "debian ubuntu"),
        (&rh_subscription::MODULE, "fedora rhel"),
        (&snap::MODULE, "ubuntu"),
        (&spacewalk::MODULE, "fedora openeuler rhel"),
        (
            &yum_add_repo::MODULE,
            "almalinux amazon azurelinux centos cloudlinux eurolinux fedora mariner OpenCloudOS openeuler \
             openmandriva photon rhel rocky TencentOS virtuozzo",
        ),
        (
            &zypper_add_repo::MODULE,
            "opensuse opensuse-leap opensuse-microos opensuse-tumbleweed sle-micro sle_hpc sles suse",
        ),
    ];
    let mut listed: Vec<&str> = restricted.iter().map(|(module, _)| module.name).collect();
    listed.sort_unstable();
    let is_restricted = |m: &&&Module| packaged_lists::is_upstream(m) && !matches!(m.distros, Distros::All);
    let mut found: Vec<&str> = MODULES.iter().filter(is_restricted).map(|m| m.name).collect();
    found.sort_unstable();
    assert_eq!(listed, found);
    for (module, names) in restricted {
        let included = Distro::all().iter().filter(|d| module.distros.contains(d)).map(|d| d.name);
        assert_eq!(included.collect::<Vec<_>>().join(" "), names, "{}", module.name);
    }
}
