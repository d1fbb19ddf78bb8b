//! Every text that identification reads, as one call each: what the fuzz targets and the tests of bad input
//! throw bytes at. The values are thrown away; what counts is that each call comes back.

use crate::checks::{altcloud, ec2, ovf, wsl};
use crate::command::CommandOutput;
use crate::dmi::Dmi;
use crate::lookup::{self, ConfigFile};
use crate::{file_systems, policy, presets, settings, text, undecided, virt};

/// The policy, which has to be readable again from how it is shown.
pub fn policy(text: &str) {
    let (read, _) = policy::parse(text);
    assert_eq!(policy::parse(&read.to_string()), (read, Vec::new()));
}

/// ds-identify.cfg with a kernel command line above it.
pub fn settings(file: &str, command_line: &str) {
    let (read, _) = settings::parse(Some(file), command_line);
    assert!(read.datasource.is_none_or(|name| !name.is_empty()));
    assert!(read.candidates.iter().all(|name| !name.is_empty()));
}

/// cloud.cfg.
pub fn configuration(text: &str) {
    let files = [ConfigFile { path: "fuzz".into(), text: text.into() }];
    lookup::datasource_list(&files);
    lookup::has_key(&files, "NoCloud");
    lookup::last_value(&files, "strict_id");
}

/// A file of presets, and what blkid would have exported.
pub fn presets(text: &str) {
    presets::parse(text);
    file_systems::parse_blkid_export(text);
}

/// /proc/mounts, os-release and the output of Windows programs.
pub fn windows(bytes: &[u8], text: &str) {
    wsl::decode_utf16(bytes);
    wsl::windows_drives(text);
    wsl::instance_name(text);
    wsl::seed_file_names(text, text);
}

/// The note from the generator to the local stage.
pub fn undecided_state(text: &str) {
    undecided::parse(text);
}

/// What the firmware says, one field a line, and other files of one line.
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

/// The environment of PID 1, and what a hypervisor's tools answer.
pub fn processes(bytes: &[u8], environment: &str) {
    text::environment_variable(environment, "product_name");
    text::environment_variable(environment, "container");
    ovf::is_xml(&CommandOutput { stdout: bytes.to_vec(), code: 0 });
}
