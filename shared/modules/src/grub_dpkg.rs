//! grub_dpkg: configures the disk to which the package of grub installs grub, because images do not know it.

use config::schema::{ANY_MAP, BOOL, Deprecation, STR, Type};
use config::{FromNode, Node, Reader, Value};
use system::{Command, Error, Result, debug};

use crate::values::text_values::Line;
use crate::{Context, Frequency, Module, or_warn};

pub const MODULE: Module =
    Module::if_set::<Keys>("grub_dpkg", Frequency::Instance, run).repeatable().on(&["debian", "ubuntu"]);

config::keys! {
    pub struct Grub as "grub" {
        /// Set these answers.
        enabled: bool = false;
        /// Disks to install to (BIOS). The default is the disk of /boot.
        bios_devices as "grub-pc/install_devices": Option<Line>;
        /// Allow an installation to no disk. The default is true if no disk was found.
        no_devices as "grub-pc/install_devices_empty": Option<Flag>;
        /// The partition to install to (EFI). The default is that of /boot/efi.
        efi_devices as "grub-efi/install_devices": Option<Line>;
    }
    pub struct Keys {
        /// Debconf answers for grub's packages.
        grub_dpkg: Option<Grub>;
        /// Old spelling.
        old_spelling as "grub-dpkg": Option<Grub>, until "22.2" use "grub_dpkg", types [ANY_MAP];
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flag(bool);

const TEXT_FLAG: Deprecation =
    Deprecation::new("22.3", "a boolean").message("Changed in version 22.3. Use a boolean value instead.");

impl FromNode for Flag {
    const SCHEMA: &'static [Type] = &[BOOL, STR.deprecated(&TEXT_FLAG)];

    fn read(node: &Node, reader: &mut Reader) -> Option<Flag> {
        let Value::Str(text) = &node.value else { return bool::read(node, reader).map(Flag) };
        reader.report_deprecated_form(node, &TEXT_FLAG);
        let is_true = ["true", "1", "on", "yes"].contains(&text.trim().to_ascii_lowercase().as_str());
        Some(Flag(is_true))
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let pick = |keys: Keys| keys.grub_dpkg.or(keys.old_spelling);
    let Some(grub) = context.fully_valid_key(pick)? else { return Ok(()) };
    let sys = context.sys;
    if !grub.enabled {
        debug!(sys, "grub_dpkg.enabled is not set; skipped");
        return Ok(());
    }
    let is_efi = sys.exists("/sys/firmware/efi");
    let given = if is_efi { &grub.efi_devices } else { &grub.bios_devices };
    let devices = match given {
        Some(Line(devices)) => devices.clone(),
        None => boot_device(context, is_efi)?,
    };
    let answers = if is_efi {
        format!("grub-pc grub-efi/install_devices string {devices}\n")
    } else {
        let may_be_empty = grub.no_devices.map_or(devices.is_empty(), |flag| flag.0);
        format!(
            "grub-pc grub-pc/install_devices string {devices}\ngrub-pc grub-pc/install_devices_empty boolean {may_be_empty}\n"
        )
    };
    or_warn!(sys, sys.run(&Command::new(["debconf-set-selections"]).stdin(answers)), "grub_dpkg");
    Ok(())
}

/// Returns the disk of /boot, or the partition of /boot/efi, by its stable name; empty if it is not known.
fn boot_device(context: &Context<'_>, is_efi: bool) -> Result<String> {
    let sys = context.sys;
    if sys.which("grub-probe").is_none() {
        debug!(sys, "grub_dpkg: grub-probe is not installed");
        return Ok(String::new());
    }
    let (kind, path) = if is_efi { ("device", "/boot/efi") } else { ("disk", "/boot") };
    let probe = sys.run(&Command::new(["grub-probe", "-t", kind, path]).read_only().accept_all())?;
    if probe.code != 0 {
        let message = String::from_utf8_lossy(&probe.stderr);
        // A container has no such device.
        if message.contains("failed to get canonical path") {
            return Ok(String::new());
        }
        return Err(Error::new(format!("grub-probe -t {kind} {path}: exit code {}", probe.code)));
    }
    let disk = probe.text().trim().to_string();
    if disk.is_empty() || !sys.exists(&disk) {
        return Ok(String::new());
    }
    let query = Command::new(["udevadm", "info", "--root", "--query=symlink", &disk]).read_only();
    let links = or_warn!(sys, sys.run(&query), "grub_dpkg").map(|output| output.text()).unwrap_or_default();
    let by_id = links.split_whitespace().filter(|link| link.contains("disk/by-id")).min();
    Ok(by_id.map_or(disk, Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn installation_to_no_disk_is_refused_by_text() {
        let sandbox = Sandbox::new(
            "grub_dpkg: {enabled: true, grub-pc/install_devices: '', grub-pc/install_devices_empty: 'no'}",
        );
        sandbox.stub("debconf-set-selections", "");
        sandbox.run(&MODULE).unwrap();
        let answers = "< grub-pc grub-pc/install_devices string \n< grub-pc grub-pc/install_devices_empty boolean false\n";
        assert_eq!(sandbox.calls(), format!("debconf-set-selections\n{answers}"));
    }
}
