//! The parsers of everything that identification reads, for fuzz targets and tests of invalid input: each call must return
//! without a panic. The values are discarded.

use crate::checks::{altcloud, ec2, ovf, wsl};
use crate::command::CommandOutput;
use crate::dmi_fields::Dmi;
use crate::lookup::{self, ConfigFile};
use crate::{file_systems, policy, presets, settings, text, undecided, virt};

/// Parses a policy. Panics if printing and parsing it again gives another one.
pub fn policy(text: &str) {
    let (read, _) = policy::parse(text);
    assert_eq!(policy::parse(&read.to_string()), (read, Vec::new()));
}

/// Parses ds-identify.cfg and the kernel command line that overrides it.
pub fn settings(file: &str, command_line: &str) {
    let (read, _) = settings::parse(Some(file), command_line);
    assert!(read.datasource.is_none_or(|name| !name.is_empty()));
    assert!(read.candidates.iter().all(|name| !name.is_empty()));
}

/// Parses cloud.cfg.
pub fn configuration(text: &str) {
    let files = [ConfigFile { path: "fuzz".into(), text: text.into() }];
    lookup::datasource_list(&files);
    lookup::has_key(&files, "NoCloud");
    lookup::last_value(&files, "strict_id");
}

/// Parses a file of presets, and the export format of blkid.
pub fn presets(text: &str) {
    presets::parse(text);
    file_systems::parse_blkid_export(text);
}

/// Parses /proc/mounts, os-release and the output of Windows programs.
pub fn windows(bytes: &[u8], text: &str) {
    wsl::decode_utf16(bytes);
    wsl::windows_drives(text);
    wsl::instance_name(text);
    wsl::seed_file_names(text, text);
}

/// Parses the state file that the generator leaves for the local stage.
pub fn undecided_state(text: &str) {
    undecided::parse(text);
}

/// Parses firmware fields, one per line, and other files of one line.
pub fn firmware(text: &str) {
    let mut lines = text.split('\n').map(text::first_line);
    let mut next = || lines.next().unwrap_or_default();
    let dmi = Dmi {
        sys_vendor: next(),
        board_name: next(),
        chassis_asset_tag: next(),
        product_name: next(),
        product_serial: next(),
        product_uuid: next(),
    };
    ec2::platform(&dmi, &next());
    virt::from_dmi(&dmi);
    altcloud::kind_of(&dmi.product_name);
}

/// Parses the environment of PID 1, and the output of a hypervisor's tools.
pub fn processes(bytes: &[u8], environment: &str) {
    text::environment_variable(environment, "product_name");
    text::environment_variable(environment, "container");
    ovf::is_xml(&CommandOutput { stdout: bytes.to_vec(), code: 0 });
}
