use blockdev::{PartitionTable, TablePartition};
use config::FromNode as _;
use config::Reader;

use super::file_system::{fill_in, mkfs_arguments};
use super::keys::{Disk, FileSystem, Layout, TableKind};
use super::layout::{gpt_script, has_same_positions, matches, mbr_script, parts, sgdisk_arguments};
use super::target::Names;
use crate::disks::metadata_devices::MetadataDevices;
use crate::tests::sandbox::{Sandbox, yaml};

fn layout(text: &str) -> Layout {
    Layout::read(&yaml(text), &mut Reader::new()).unwrap()
}

fn file_system(text: &str) -> FileSystem {
    FileSystem::read(&yaml(text), &mut Reader::new()).unwrap()
}

#[test]
fn layouts_become_input_of_the_partitioning_tools() {
    const SECTORS: u64 = 10_000;
    let of = |table, text| parts(table, &layout(text), SECTORS).map_err(|e| e.to_string());
    for (text, script) in [
        ("true", ",,83\n"),
        ("[100]", ",,83\n"),
        ("[33, [66, 82]]", ",3300,83\n,,82\n"),
        ("[[25, swap], 12.5, ['30', fd]]", ",2500,82\n,1250,83\n,,FD\n"),
    ] {
        assert_eq!(mbr_script(&of(TableKind::Mbr, text).unwrap()), script, "{text}");
    }
    for (text, arguments) in [
        ("true", "-n 1:0:0"),
        ("[50, [50, 82]]", "-n 1:0:+5000 -n 2:0:0 -t 2:8200"),
        ("[[40, ef02], 60]", "-n 1:0:+4000 -t 1:EF02 -n 2:0:0"),
    ] {
        assert_eq!(sgdisk_arguments(&of(TableKind::Gpt, text).unwrap()).join(" "), arguments, "{text}");
    }
    assert_eq!(
        gpt_script(&of(TableKind::Gpt, "[10, [90, 8200]]").unwrap()).unwrap(),
        ",1000,0FC63DAF-8483-4772-8E79-3D69D8477DE4\n,,0657FD6D-A4AB-43C4-84E5-0933C84B4F4F\n"
    );
    assert!(gpt_script(&of(TableKind::Gpt, "[[90, a038]]").unwrap()).is_err());
    for (table, text) in [
        (TableKind::Mbr, "[10, 10, 10, 10, 10]"),
        (TableKind::Mbr, "[60, 40, 10]"),
        (TableKind::Mbr, "[[10, '83\n,,82']]"),
        (TableKind::Mbr, "[[10, 8300]]"),
        (TableKind::Gpt, "[[10, nonsense]]"),
        (TableKind::Gpt, "[[10, 0FC63DAF-8483-4772-8E79-3D69D8477DEX]]"),
        (TableKind::Gpt, "[[10, 448]]"),
    ] {
        of(table, text).unwrap_err();
    }
}

#[test]
fn existing_partitions_are_compared_with_the_layout() {
    const LINUX: &str = "0fc63daf-8483-4772-8e79-3d69d8477de4";
    for (text, kinds, same) in [
        ("true", &[][..], Some(false)),
        ("true", &["07"], Some(true)),
        ("true", &["05"], Some(false)),
        ("[50, 50]", &["83"], Some(false)),
        ("[50, 50]", &[LINUX, "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7"], Some(true)),
        ("[50, [50, 83]]", &["83", "82"], Some(false)),
        ("[50, [50, 8e]]", &["83", "05", "8e"], Some(true)),
        ("[[100, 83]]", &[LINUX], Some(true)),
        ("[[100, 8200]]", &[LINUX], Some(false)),
        ("[[100, 0FC63DAF-8483-4772-8E79-3D69D8477DE4]]", &[LINUX], Some(true)),
        ("[[100, '07']]", &["07"], Some(true)),
        ("[[100, a038]]", &[LINUX], None),
    ] {
        let partitions = kinds.iter().zip(1..).map(|(kind, number)| TablePartition {
            number,
            kind: kind.to_string(),
            ..TablePartition::default()
        });
        let table = PartitionTable { partitions: partitions.collect(), ..PartitionTable::default() };
        assert_eq!(matches(&layout(text), Some(&table)).ok(), same, "{text} {kinds:?}");
    }
    assert!(!matches(&layout("[1]"), None).unwrap());
}

#[test]
fn existing_partitions_must_be_at_the_same_places() {
    let table = |places: &[(u32, u64, u64)]| PartitionTable {
        partitions: places
            .iter()
            .map(|&(number, start, size)| TablePartition { number, start, size, ..TablePartition::default() })
            .collect(),
        ..PartitionTable::default()
    };
    for (text, sector, places, same) in [
        ("true", 512, &[(1, 2048, 5)][..], true),
        ("true", 512, &[(1, 2049, 5)], false),
        ("[50, 50]", 512, &[(1, 2048, 5000), (2, 8192, 9)], true),
        ("[50, 50]", 512, &[(1, 2048, 4999), (2, 8192, 9)], false),
        ("[50, 50]", 512, &[(1, 2048, 5000), (3, 8192, 9)], false),
        ("[50, 50]", 512, &[(1, 2048, 5000), (2, 8191, 9)], false),
        ("[50, 50]", 4096, &[(1, 2048, 40_000), (2, 43_008, 9)], true),
        ("[50, 50]", 512, &[(1, 2048, 5000)], false),
        ("true", 512, &[(1, u64::MAX, u64::MAX)], false),
    ] {
        let parts = parts(TableKind::Gpt, &layout(text), 10_000).unwrap();
        assert_eq!(has_same_positions(&parts, sector, &table(places)), same, "{text} {places:?}");
    }
}

#[test]
fn invalid_values_of_an_entry_are_reported() {
    for (text, count) in [
        ("{layout: sometimes}", 1),
        ("{layout: [0]}", 1),
        ("{layout: [101]}", 1),
        ("{layout: [.nan]}", 1),
        ("{layout: [[50]]}", 1),
        ("{layout: [[50, [83]]]}", 1),
        ("{layout: 50}", 1),
        ("{overwrite: maybe}", 1),
        ("{table_type: msdos}", 1),
        ("{layout: null, overwrite: null}", 0),
    ] {
        let mut reader = Reader::new();
        Disk::read(&yaml(text), &mut reader);
        assert_eq!(reader.into_findings().iter().count(), count, "{text}");
    }
    for (text, count) in [
        ("{filesystem: ext4}", 0),
        ("{device: a, filesystem: ../x}", 1),
        ("{device: a, filesystem: 'x y'}", 1),
        ("{device: a, partition: 0}", 1),
        ("{device: a, partition: -1}", 1),
        ("{device: a, partition: both}", 1),
        ("{device: a, cmd: []}", 1),
        ("{device: a, cmd: {a: b}}", 1),
        ("{device: a, extra_opts: [[x]]}", 1),
        ("{device: a, label: \"a\\nb\"}", 1),
        ("{device: a, replace_fs: ''}", 1),
        ("{device: a, partition: null, label: null}", 0),
    ] {
        let mut reader = Reader::new();
        FileSystem::read(&yaml(text), &mut reader);
        assert_eq!(reader.into_findings().iter().count(), count, "{text}");
    }
}

#[test]
fn mkfs_arguments_depend_on_the_file_system() {
    for (text, force, line) in [
        ("{device: d, label: a b, filesystem: ext4}", false, "mkfs|-L|a b|/dev/x"),
        (
            "{device: d, label: a, filesystem: ext3, extra_opts: [-E, nodiscard]}",
            true,
            "mkfs|-L|a|-F|-E|nodiscard|/dev/x",
        ),
        ("{device: d, label: a, filesystem: vfat}", true, "mkfs|-n|a|-I|/dev/x"),
        ("{device: d, filesystem: xfs, extra_opts: -K -q}", true, "mkfs|-f|-K|-q|/dev/x"),
        ("{device: d, label: '', filesystem: minix}", true, "mkfs|/dev/x"),
        ("{device: d, label: a, filesystem: f2fs}", false, "mkfs|-l|a|/dev/x"),
    ] {
        let wanted = file_system(text);
        let fs_type = wanted.filesystem.as_ref().unwrap().0.as_str();
        assert_eq!(mkfs_arguments("mkfs", fs_type, &wanted, force, "/dev/x").join("|"), line);
    }
}

#[test]
fn placeholders_of_a_command_are_filled() {
    let wanted = file_system("{device: d, label: 'a%(device)s', filesystem: ext4}");
    for (text, filled) in [
        ("mkfs", Some("mkfs")),
        ("mkfs.%(filesystem)s -L '%(label)s' %(device)s", Some("mkfs.ext4 -L 'a%(device)s' /dev/x")),
        ("100%% %(device)s%%", Some("100% /dev/x%")),
        ("%(unknown)s", None),
        ("50%", None),
        ("%(device)d", None),
    ] {
        assert_eq!(fill_in(text, &wanted, "/dev/x").ok().as_deref(), filled, "{text}");
    }
    assert_eq!(fill_in("%(label)s", &file_system("{device: d}"), "").unwrap(), "None");
}

#[test]
fn device_names_are_resolved_through_aliases_and_metadata() {
    let mut sandbox = Sandbox::new("{}");
    for (name, device) in [("ephemeral0", "vdb"), ("ephemeral1", "/dev/vdc")] {
        sandbox.instance.devices.insert(name.into(), device.into());
    }
    let aliases = [("data", "/dev/vdd"), ("mine", "ephemeral1")];
    let aliases = aliases.map(|(name, device)| (name.to_string(), device.to_string())).into();
    let names = Names { aliases: &aliases, metadata: MetadataDevices::new(&sandbox.sys, &sandbox.instance) };
    for (name, path) in [
        ("ephemeral0", "/dev/vdb"),
        ("ephemeral1", "/dev/vdc"),
        ("data", "/dev/vdd"),
        ("mine", "/dev/vdc"),
        ("swap", "swap"),
        ("/dev/vde", "/dev/vde"),
    ] {
        assert_eq!(names.resolve(name), path);
    }
    for (name, path, number) in [
        ("ephemeral0.1", "/dev/vdb", Some(1)),
        ("/dev/disk/by-id/a.b", "/dev/disk/by-id/a.b", None),
        ("data.x", "data.x", None),
        ("data", "/dev/vdd", None),
    ] {
        assert_eq!(names.resolve_dotted(&sandbox.sys, name), (path.to_string(), number));
    }
}

#[test]
fn invalid_entries_do_not_affect_the_others() {
    let sandbox = Sandbox::live(
        "disk_setup: {/dev/none-a: {layout: [0]}, /dev/none-b: {layout: true}, x: 1, /dev/none-c: {layout: false}}\n\
         fs_setup: [{device: /dev/none-a, filesystem: 'a/b'}, {device: /dev/none-b, filesystem: ext4}, x]\n",
    );
    sandbox.run(&super::MODULE).unwrap();
    let warnings = sandbox.logged_warnings();
    for expected in [
        "disk_setup./dev/none-a: invalid; this disk is not changed",
        "disk_setup./dev/none-b: /dev/none-b is not a block device",
        "disk_setup.x: invalid; this disk is not changed",
        "fs_setup[0]: invalid; this file system is skipped",
        "fs_setup[1]: /dev/none-b is not a block device",
        "fs_setup[2]: invalid; this file system is skipped",
    ] {
        assert_eq!(warnings.iter().filter(|w| *w == expected).count(), 1, "{expected}: {warnings:?}");
    }
    assert!(sandbox.sys.effects().is_empty());
}

/// Nothing runs, and the devices do not exist here.
#[test]
fn plan_of_an_image_names_the_devices() {
    let mut sandbox = Sandbox::new(
        "device_aliases: {data: /dev/vdy}
disk_setup: {data: {layout: true}, /dev/vdx: {layout: remove, overwrite: true}, /dev/vdw: {layout: false}}
fs_setup: [{device: data.1, filesystem: ext4}, {device: /dev/vdz, filesystem: xfs, overwrite: true}]",
    );
    let planned = |sandbox: &Sandbox| {
        sandbox.run(&super::MODULE).unwrap();
        let effects = sandbox.sys.effects().into_iter().map(|effect| format!("{effect:?}"));
        effects.filter(|effect| effect.contains("/dev/vd")).collect::<Vec<_>>()
    };
    assert_eq!(planned(&sandbox), Vec::<String>::new());
    let overlay = scratch::TempDir::new();
    sandbox.sys = system::System::dry_run(&*sandbox.top, &overlay);
    let planned = planned(&sandbox);
    let expected = [
        "partition /dev/vdy (mbr) when the machine boots, unless it holds data",
        "remove the partitions of /dev/vdx when the machine boots, even if it holds data",
        "make a file system (ext4) on /dev/vdy, partition 1 when the machine boots, unless it holds data",
        "make a file system (xfs) on /dev/vdz when the machine boots, even if it holds data",
    ];
    assert_eq!(planned.len(), expected.len(), "{planned:#?}");
    for (effect, expected) in planned.iter().zip(expected) {
        assert!(effect.contains(expected), "{effect}: {expected}");
    }
}
