//! lxd: installs LXD as a snap and initializes it, with options and a bridge, or with a preseed.

use std::time::Duration;

use config::schema::{INT, Type};
use config::{FromNode, Node, Reader, yaml};
use system::{Command, Error, Result, debug, info, warning};

use crate::packages::package_sources;
use crate::services::snap_seeding::wait_until_seeded;
use crate::values::text_values::{Line, Word};
use crate::{Context, Frequency, Module};

pub const MODULE: Module =
    Module::if_set::<Keys>("lxd", Frequency::Instance, run).repeatable().on(&["ubuntu"]);

/// The bridge that `lxd init` may create.
const DEFAULT_BRIDGE: &str = "lxdbr0";
/// Longer than `lxd waitready` waits.
// Wait: lxd | `lxd waitready` | -
const READY_TIMEOUT: Duration = Duration::from_secs(330);

/// Storage drivers with the program that each needs, and its package.
const STORAGE_TOOLS: [(&str, &str, &str); 3] =
    [("zfs", "zfs", "zfsutils-linux"), ("lvm", "lvcreate", "lvm2"), ("btrfs", "mkfs.btrfs", "btrfs-progs")];

config::string_enum! {
    pub enum Backend { Zfs = "zfs", Dir = "dir", Lvm = "lvm", Btrfs = "btrfs" }
    pub enum Mode { None = "none", Existing = "existing", New = "new" }
}

config::keys! {
    pub struct Init {
        /// The address that LXD listens on.
        network_address: Option<Line>;
        /// The port that LXD listens on.
        network_port: Option<i64>;
        /// The storage backend. LXD's default is `dir`.
        storage_backend: Option<Backend>;
        /// The block device of the storage pool.
        storage_create_device: Option<Line>;
        /// The size of a loop file for the storage pool, in GB.
        storage_create_loop: Option<i64>;
        /// The storage pool to use or create.
        storage_pool: Option<Line>;
        /// The password for adding clients.
        trust_password: Option<String>;
    }
    pub struct Bridge {
        /// Create a bridge (`new`), use an existing one (`existing`), or neither (`none`).
        mode: Mode;
        /// The name of the bridge.
        name: Word = "lxdbr0";
        /// The MTU of the bridge; -1 is LXD's default.
        mtu: Option<Mtu>;
        /// The IPv4 address of the bridge; needs `ipv4_netmask`.
        ipv4_address: Option<Word>;
        /// The IPv4 prefix length.
        ipv4_netmask: Option<i64>;
        /// The first address of the DHCP range.
        ipv4_dhcp_first: Option<Word>;
        /// The last address of the DHCP range.
        ipv4_dhcp_last: Option<Word>;
        /// The maximum number of DHCP leases. Ignored by LXD's snap.
        ipv4_dhcp_leases: Option<i64>;
        /// Enable NAT for IPv4. The default is true.
        ipv4_nat: Option<bool>;
        /// The IPv6 address of the bridge; needs `ipv6_netmask`.
        ipv6_address: Option<Word>;
        /// The IPv6 prefix length.
        ipv6_netmask: Option<i64>;
        /// Enable NAT for IPv6.
        ipv6_nat: bool = false;
        /// The DNS domain for DHCP clients.
        domain: Option<Word>;
    }
    pub struct Lxd {
        /// Options of `lxd init --auto`.
        init: Option<Init>;
        /// The network bridge of the default profile.
        bridge: Option<Bridge>;
        /// YAML for `lxd init --preseed`; excludes `init` and `bridge`.
        preseed: Option<String>;
    }
    pub struct Keys {
        /// Install and configure LXD.
        lxd: Option<Lxd>, within min(1);
    }
}

/// A number of bytes, or `None` for LXD's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mtu(Option<u32>);

impl FromNode for Mtu {
    const SCHEMA: &'static [Type] = &[INT.min(-1)];

    fn read(node: &Node, reader: &mut Reader) -> Option<Mtu> {
        match i64::read(node, reader)? {
            -1 => Some(Mtu(None)),
            number => match u32::try_from(number) {
                Ok(mtu) => Some(Mtu(Some(mtu))),
                Err(_) => reader.type_error(node, "a number of bytes, or -1"),
            },
        }
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    // A wrong storage pool or network is permanent, so one invalid value prevents the initialization.
    let Some(lxd) = context.fully_valid_key(|k: Keys| k.lxd)? else { return Ok(()) };
    let has_keys = |path: &[&str]| {
        context.config.at_path(path).and_then(Node::as_map).is_some_and(|map| !map.is_empty())
    };
    if !has_keys(&["lxd"]) {
        debug!(sys, "lxd is empty; skipping");
        return Ok(());
    }
    let init = lxd.init.filter(|_| has_keys(&["lxd", "init"]));
    let preseed = lxd.preseed.filter(|text| !text.is_empty());
    if preseed.is_some() && (init.is_some() || lxd.bridge.is_some()) {
        return Err(Error::new("lxd.preseed excludes lxd.init and lxd.bridge; module skipped"));
    }
    install(context)?;
    let drivers = match (&init, &preseed) {
        (Some(Init { storage_backend: Some(backend), .. }), _) => vec![backend.as_str().to_string()],
        (_, Some(preseed)) => preseed_drivers(context, preseed),
        _ => Vec::new(),
    };
    let packages = missing_packages(context, &drivers);
    if !packages.is_empty()
        && let Err(e) = package_sources::install_names(context, &packages)
    {
        warning!(sys, "LXD is not initialized: {e}");
        return Ok(());
    }
    sys.run(&Command::new(["lxd", "waitready", "--timeout=300"]).timeout(READY_TIMEOUT))?;
    if let Some(preseed) = preseed {
        let command = Command::new(["lxd", "init", "--preseed"]).stdin(preseed);
        return sys.run(&command.timeout(context.script_timeout)).map(drop);
    }
    if let Some(init) = &init {
        initialize(context, init)?;
    }
    lxd.bridge.map_or(Ok(()), |bridge| configure_bridge(context, &bridge, init.is_some()))
}

fn install(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    wait_until_seeded(context)?;
    if sys.run(&Command::new(["snap", "list", "lxd"]).read_only()).is_ok() {
        return Ok(());
    }
    let install = Command::new(["snap", "install", "lxd"]).timeout(context.script_timeout);
    sys.run(&install).map(drop).map_err(|e| Error::new(format!("installing LXD: {e}")))
}

/// Returns the drivers of the storage pools of a preseed.
fn preseed_drivers(context: &Context<'_>, preseed: &str) -> Vec<String> {
    let parsed = match yaml::parse("lxd.preseed", preseed) {
        Ok(parsed) => parsed.root,
        // LXD gets the text as it is. The parser's message could quote a secret.
        Err(_) => {
            warning!(
                context.sys,
                "lxd.preseed is not valid YAML; not installing packages for its storage pools"
            );
            return Vec::new();
        }
    };
    let pools = parsed.get("storage_pools").and_then(Node::as_seq).into_iter().flatten();
    pools.filter_map(|pool| pool.get("driver")?.as_str().map(Into::into)).collect()
}

fn missing_packages(context: &Context<'_>, drivers: &[String]) -> Vec<String> {
    let is_missing = |(driver, program, _): &&(&str, &str, &str)| {
        drivers.iter().any(|d| d == driver) && context.sys.which(program).is_none()
    };
    STORAGE_TOOLS.iter().filter(is_missing).map(|(.., package)| package.to_string()).collect()
}

fn initialize(context: &Context<'_>, init: &Init) -> Result<()> {
    let sys = context.sys;
    let run = |options: &[String]| {
        let words = ["lxd", "init", "--auto"].into_iter().chain(options.iter().map(String::as_str));
        sys.run(&Command::new(words).timeout(context.script_timeout)).map(drop)
    };
    let options = init_options(init);
    if let Err(e) = run(&options) {
        if init.storage_backend != Some(Backend::Lvm) {
            return Err(e);
        }
        // The kernel of a minimal image has no thin pools.
        info!(sys, "{e}; using LVM without a thin pool");
        let create = ["lxc", "storage", "create", "default", "lvm", "lvm.use_thinpool=false"];
        sys.run(&Command::new(create).timeout(context.script_timeout))?;
        let others = options.into_iter().filter(|option| !option.starts_with("--storage-backend="));
        run(&others.collect::<Vec<_>>())?;
    }
    match &init.trust_password {
        // On standard input, as every user can read arguments.
        Some(password) if !password.is_empty() => {
            let set = lxc(context, &["config", "set", "core.trust_password", "-"]);
            sys.run(&set.stdin(password.as_str())).map(drop)
        }
        _ => Ok(()),
    }
}

/// Returns the options of `lxd init` for the values that are set, except for the password.
fn init_options(init: &Init) -> Vec<String> {
    let line = |text: &Option<Line>| text.as_ref().map(|Line(text)| text.clone()).filter(|t| !t.is_empty());
    let number = |number: Option<i64>| number.filter(|n| *n != 0).map(|n| n.to_string());
    let options = [
        ("network-address", line(&init.network_address)),
        ("network-port", number(init.network_port)),
        ("storage-backend", init.storage_backend.map(|backend| backend.as_str().into())),
        ("storage-create-device", line(&init.storage_create_device)),
        ("storage-create-loop", number(init.storage_create_loop)),
        ("storage-pool", line(&init.storage_pool)),
    ];
    options.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value?))).collect()
}

fn lxc(context: &Context<'_>, words: &[&str]) -> Command {
    let home = context.sys.user("root").map_or_else(|| "/root".into(), |root| root.home);
    let command = Command::new(["lxc"].iter().chain(words).chain(&["--force-local"]));
    command.env("LC_ALL", "C").env("HOME", home).env("USER", "root")
}

/// Configures the bridge of LXD's snap.
fn configure_bridge(context: &Context<'_>, bridge: &Bridge, is_initialized: bool) -> Result<()> {
    let run = |words: &[&str]| context.sys.run(&lxc(context, words)).map(drop);
    let name = bridge.name.0.as_str();
    // Code 1 says that there is nothing to remove.
    let removes = |words: &[&str]| {
        let output = context.sys.run(&lxc(context, words).accept(&[0, 1]))?;
        Ok::<bool, Error>(output.code == 0)
    };
    // lxd init has created a bridge of this name in the default profile, with settings of its own.
    let replaces = is_initialized && name == DEFAULT_BRIDGE;
    if replaces && bridge.mode == Mode::New && removes(&["network", "detach-profile", name, "default"])? {
        run(&["network", "delete", name])?;
    }
    if replaces && bridge.mode != Mode::None {
        removes(&["profile", "device", "remove", "default", "eth0"])?;
    }
    if bridge.mode == Mode::New {
        let settings = bridge_settings(bridge);
        let words = ["network", "create", name].into_iter().chain(settings.iter().map(String::as_str));
        run(&words.collect::<Vec<_>>())?;
    }
    if bridge.mode != Mode::None {
        run(&["network", "attach-profile", name, "default", "eth0"])?;
    }
    Ok(())
}

/// Returns the settings of a new bridge.
fn bridge_settings(bridge: &Bridge) -> Vec<String> {
    let mut settings = Vec::new();
    match (&bridge.ipv4_address, bridge.ipv4_netmask) {
        (Some(Word(address)), Some(length)) if length != 0 => {
            settings.push(format!("ipv4.address={address}/{length}"));
            if bridge.ipv4_nat.unwrap_or(true) {
                settings.push("ipv4.nat=true".into());
            }
            if let (Some(Word(first)), Some(Word(last))) = (&bridge.ipv4_dhcp_first, &bridge.ipv4_dhcp_last) {
                settings.push(format!("ipv4.dhcp.ranges={first}-{last}"));
            }
        }
        _ => settings.push("ipv4.address=none".into()),
    }
    match (&bridge.ipv6_address, bridge.ipv6_netmask) {
        (Some(Word(address)), Some(length)) if length != 0 => {
            settings.push(format!("ipv6.address={address}/{length}"));
            if bridge.ipv6_nat {
                settings.push("ipv6.nat=true".into());
            }
        }
        _ => settings.push("ipv6.address=none".into()),
    }
    settings.extend(bridge.domain.as_ref().map(|Word(domain)| format!("dns.domain={domain}")));
    settings.extend(bridge.mtu.and_then(|Mtu(mtu)| mtu).map(|mtu| format!("bridge.mtu={mtu}")));
    settings
}
