//! For tests: the module lists of the packaged cloud.cfg, rendered for each variant of packaging/variants, beside the
//! modules of upstream and the distributions that the modules support.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use config::Node;
use distro::Distro;
use scratch::{TempDir, source_path};

use crate::tests::sandbox::yaml;
use crate::{MODULES, Module, find_module};

/// Upstream's modules, in the order of its lists; those that only some distributions list included.
const UPSTREAM: &str = "seed_random bootcmd write_files growpart resizefs disk_setup mounts set_hostname update_hostname \
     update_etc_hosts resolv_conf ca_certs rsyslog users_groups ssh set_passwords \
     wireguard snap ubuntu_autoinstall ssh_import_id keyboard locale grub_dpkg apt_pipelining apt_configure \
     zypper_add_repo apk_configure ubuntu_pro rh_subscription spacewalk yum_add_repo ntp timezone raspberry_pi \
     disable_ec2_metadata runcmd byobu \
     package_update_upgrade_install fan landscape lxd ubuntu_drivers write_files_deferred puppet chef ansible \
     mcollective salt_minion reset_rmc scripts_vendor scripts_per_once scripts_per_boot scripts_per_instance \
     scripts_user ssh_authkey_fingerprints keys_to_console install_hotplug phone_home final_message \
     power_state_change";

/// Returns whether upstream has a module: what is known of its modules does not concern a module of our own.
pub fn is_upstream(module: &Module) -> bool {
    UPSTREAM.split(' ').any(|name| name == module.name)
}

/// The module lists of one variant's package.
pub struct PackagedLists {
    /// The name in packaging/variants.
    pub variant: String,
    /// The implementation that `system_info.distro` names.
    pub distro: &'static Distro,
    /// The modules of all stages.
    pub modules: Vec<String>,
}

impl PackagedLists {
    /// Renders the cloud.cfg of each variant.
    pub fn all() -> Vec<PackagedLists> {
        let variants = std::fs::read_to_string(source_path("packaging/variants")).unwrap();
        variants.lines().filter_map(|line| line.strip_prefix("variant ")).map(PackagedLists::of).collect()
    }

    fn of(variant: &str) -> PackagedLists {
        let template = std::fs::File::open(source_path("packaging/etc-cloud/cloud.cfg")).unwrap();
        let mut render = Command::new("sh");
        render.arg(source_path("packaging/render")).arg(variant).stdin(template).stderr(Stdio::inherit());
        let output = render.output().unwrap();
        assert!(output.status.success(), "{variant}");
        let config = yaml(&String::from_utf8(output.stdout).unwrap());
        let lists = ["cloud_init_modules", "cloud_config_modules", "cloud_final_modules"];
        let items = lists.iter().flat_map(|list| config.get(list).and_then(Node::as_seq).unwrap());
        let modules = items.map(|item| item.as_str().unwrap().to_string()).collect();
        let name =
            config.get("system_info").and_then(|info| info.get("distro")).and_then(Node::as_str).unwrap();
        PackagedLists { variant: variant.into(), distro: Distro::named(name).unwrap(), modules }
    }

    fn has(&self, module: &str) -> bool {
        self.modules.iter().any(|name| name == module)
    }
}

/// Modules in the packaged lists of variants whose distribution they do not support, as in upstream's lists; a module in
/// `unverified_modules` runs there.
const SKIPPED: &[(&str, &str, &str)] = &[
    (
        "ca_certs",
        "arch azurelinux eurolinux gentoo mariner miraclelinux OpenCloudOS openeuler openmandriva TencentOS virtuozzo",
        NOT_DOCUMENTED,
    ),
    ("fan", "debian devuan", UBUNTU),
    ("keyboard", "aosc gentoo OpenCloudOS openeuler TencentOS", NOT_DOCUMENTED),
    ("landscape", "debian devuan", UBUNTU),
    ("lxd", "debian devuan", UBUNTU),
    ("ntp", "amazon arch gentoo", NOT_DOCUMENTED),
    (
        "rh_subscription",
        "almalinux centos cloudlinux eurolinux miraclelinux rocky virtuozzo",
        "for subscriptions of Red Hat",
    ),
    ("snap", "debian devuan", UBUNTU),
    (
        "spacewalk",
        "almalinux centos cloudlinux eurolinux miraclelinux openmandriva rocky virtuozzo",
        NOT_DOCUMENTED,
    ),
    (
        "ssh_import_id",
        "almalinux amazon aosc arch azurelinux centos cloudlinux eurolinux fedora gentoo mariner miraclelinux \
         OpenCloudOS openeuler openmandriva rhel rocky suse TencentOS virtuozzo",
        "the program is packaged by the families of Debian and Alpine only",
    ),
    ("yum_add_repo", "miraclelinux", NOT_DOCUMENTED),
];
const NOT_DOCUMENTED: &str = "upstream's documentation of the module does not name them";
const UBUNTU: &str = "a service of Ubuntu, which its documentation names alone";

#[test]
fn upstream_modules_are_in_upstream_order() {
    let names: Vec<&str> = MODULES.iter().filter(|module| is_upstream(module)).map(|m| m.name).collect();
    assert_eq!(names, UPSTREAM.split(' ').collect::<Vec<_>>());
}

/// A module that a package lists runs there, so that no key of it is silently without effect.
#[test]
fn packaged_modules_support_the_distribution() {
    let variants = PackagedLists::all();
    assert!(variants.len() > 20 && variants.iter().all(|packaged| packaged.modules.len() > 20));
    let mut found: Vec<(&str, String)> = Vec::new();
    let mut modules = MODULES.to_vec();
    modules.sort_by_key(|module| module.name);
    for module in modules {
        let is_skipped = |packaged: &&PackagedLists| {
            packaged.has(module.name) && !module.distros.contains(packaged.distro)
        };
        let mut names: Vec<&str> = variants.iter().filter(is_skipped).map(|v| v.variant.as_str()).collect();
        names.sort_by_key(|name| name.to_lowercase());
        if !names.is_empty() {
            found.push((module.name, names.join(" ")));
        }
    }
    let expected: Vec<(&str, String)> =
        SKIPPED.iter().map(|(module, names, _)| (*module, names.to_string())).collect();
    assert_eq!(found, expected);
    for packaged in &variants {
        let unknown = packaged.modules.iter().find(|name| find_module(name).is_none());
        assert_eq!(unknown, None, "{}", packaged.variant);
    }
}

/// The package of each variant has the templates that its modules ask for by the distribution's name.
#[test]
fn packages_have_the_templates_of_the_distribution() {
    let top = TempDir::new();
    let programs = top.join("programs");
    std::fs::create_dir(&programs).unwrap();
    for name in ["", "-local", "-network", "-config", "-final", "-tls", "-generator"] {
        let path = programs.join(format!("cloud-init{name}"));
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut checked = 0;
    for packaged in PackagedLists::all() {
        let destination = top.join(&packaged.variant);
        let mut install = Command::new(source_path("packaging/install"));
        install.arg(format!("VARIANT={}", packaged.variant)).arg(format!("BIN={}", programs.display()));
        install.arg(format!("DESTDIR={}", destination.display())).stdout(Stdio::null());
        assert!(install.status().unwrap().success(), "{}", packaged.variant);
        let has = |name: &str| destination.join(format!("etc/cloud/templates/{name}.tmpl")).is_file();
        let distro = packaged.distro;
        assert!(has(&format!("hosts.{}", distro.template_suffix)), "{}: hosts", packaged.variant);
        for client in ["chrony", "ntp", "systemd-timesyncd"] {
            let client = distro.ntp_client(client).filter(|_| distro.ntp.verified);
            let Some(client) = client.filter(|c| distro.ntp.preferred_clients.contains(&c.name.as_str()))
            else {
                continue;
            };
            checked += 1;
            assert!(client.templates.iter().any(|name| has(name)), "{}: {}", packaged.variant, client.name);
        }
    }
    assert!(checked > 50, "{checked}");
}
