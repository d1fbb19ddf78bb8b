//! Tables created by sfdisk(8), grown, and verified by sfdisk and sgdisk.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use scratch::TempDir;

use super::growth::MIB;
use super::*;

/// A directory with the image `disk`.
struct Image(TempDir);

impl Image {
    fn new(mib: u64, script: &str) -> Image {
        let image = Image(TempDir::new());
        File::create(image.path()).unwrap().set_len(mib * MIB).unwrap();
        let mut sfdisk = Command::new("sfdisk")
            .args(["-q", "--no-reread", "--no-tell-kernel"])
            .arg(image.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        sfdisk.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(sfdisk.wait().unwrap().success(), "{script}");
        image
    }

    fn path(&self) -> PathBuf {
        self.0.join("disk")
    }

    fn file(&self) -> File {
        File::options().read(true).write(true).open(self.path()).unwrap()
    }

    fn plan(&self, number: u32) -> Result<Plan, TableError> {
        let file = self.file();
        let disk = Geometry { sector_size: 512, sector_count: file.metadata().unwrap().len() / 512 };
        plan_growth(disk, number, MIB, &mut |offset, length| {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, offset).map(|()| bytes)
        })
    }

    /// Enlarges the disk, grows a partition, and returns its new length in MiB.
    fn grow(&self, mib: u64, number: u32) -> u64 {
        self.file().set_len(mib * MIB).unwrap();
        let Plan::Grow(growth) = self.plan(number).unwrap() else { panic!("nothing to do") };
        for patch in &growth.patches {
            self.file().write_all_at(&patch.bytes, patch.offset).unwrap();
        }
        assert_eq!(growth.new_length % 2048, 0);
        growth.new_length / 2048
    }

    fn output_of(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(program).args(args).arg(self.path()).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    fn plan_error(&self, number: u32) -> String {
        match self.plan(number) {
            Err(TableError(why)) => why,
            Ok(plan) => panic!("not refused: {plan:?}"),
        }
    }
}

#[test]
fn gpt_grows_and_verifies() {
    let image = Image::new(100, "label: gpt\n,10M,U\n,20M\n,,\n");
    assert_eq!(image.grow(300, 3), 268);
    let output = image.output_of("sgdisk", &["-v"]);
    assert!(output.contains("No problems found"), "{output}");
    assert!(image.output_of("sfdisk", &["--verify"]).contains("No errors"));
    let dump = image.output_of("sfdisk", &["--dump"]);
    assert!(dump.contains("last-lba: 614366"), "{dump}");
    // Once more, further; then there is nothing left to do.
    assert_eq!(image.grow(1000, 3), 968);
    assert!(image.output_of("sgdisk", &["-v"]).contains("No problems found"));
    let Ok(Plan::NoChange { free: 0 }) = image.plan(3) else { panic!() };
}

/// The sectors of the second of two partitions after growpart of cloud-utils 0.34 (Debian's 0.34-1, util-linux 2.42) grew
/// it; none if it reports that nothing can be gained. That of 0.33 also uses the rest of the last MiB.
#[test]
fn lengths_match_growpart() {
    for (label, old, new, grown) in [
        ("gpt", 100, 101, Some(161_792)),
        ("gpt", 100, 102, Some(163_840)),
        ("gpt", 100, 150, Some(262_144)),
        ("gpt", 333, 4000, Some(8_146_944)),
        ("gpt", 100, 2 << 20, Some(4_294_922_240)),
        ("gpt", 100, 3 << 20, Some(6_442_405_888)),
        ("dos", 100, 101, None),
        ("dos", 100, 102, Some(163_840)),
        ("dos", 100, 150, Some(262_144)),
        ("dos", 333, 4000, Some(8_146_944)),
        ("dos", 100, 2 << 20, Some(4_294_922_240)),
        // growpart fails: the disk is larger than an MBR can address. All that it can address is used.
        ("dos", 100, 3 << 20, Some(4_294_924_288)),
    ] {
        let image = Image::new(old, &format!("label: {label}\nsize=20M\n,\n"));
        image.file().set_len(new * MIB).unwrap();
        let ours = match image.plan(2).unwrap() {
            Plan::Grow(growth) => Some(growth.new_length),
            Plan::NoChange { .. } => None,
        };
        assert_eq!(ours, grown, "{label}, {old} to {new} MiB");
    }
}

#[test]
fn gpt_entries_beyond_the_first_page_are_read() {
    let script: String = (1..=127).map(|i| format!("{i}: start={}, size=2048\n", 2048 * i)).collect();
    let image = Image::new(200, &format!("label: gpt\n{script}"));
    assert_eq!(image.grow(400, 127), 272);
    assert!(image.output_of("sgdisk", &["-v"]).contains("No problems found"));
    let Ok(Plan::NoChange { free: 0 }) = image.plan(1) else { panic!() };
}

#[test]
fn a_gap_before_the_next_partition_is_used() {
    for label in ["gpt", "dos"] {
        let script = format!("label: {label}\n1: start=2048, size=10M\n2: start=50M, size=10M\n");
        let image = Image::new(100, &script);
        assert_eq!(image.grow(100, 1), 49, "{label}");
        image.output_of("sfdisk", &["--verify"]);
        assert_eq!(image.grow(100, 2), 49);
    }
}

#[test]
fn growth_below_fudge_is_no_change() {
    let image = Image::new(100, "label: gpt\n,,\n");
    assert!(matches!(image.plan(1), Ok(Plan::NoChange { .. })));
    image.file().set_len(101 * MIB).unwrap();
    assert!(matches!(image.plan(1), Ok(Plan::Grow(_))));
}

#[test]
fn mbr_grows_to_its_limit() {
    let image = Image::new(100, "label: dos\n,10M,c,*\n,,\n");
    assert_eq!(image.grow(500, 2), 488);
    assert!(image.output_of("sfdisk", &["--verify"]).contains("No errors"));
    // A sparse disk of 3 TiB, of which an MBR can address 2 TiB.
    assert_eq!(image.grow(3 << 20, 2), (2 << 20) - 11);
    assert!(image.output_of("sfdisk", &["--verify"]).contains("No errors"));
}

#[test]
fn mbr_partition_grows_on_four_kib_sectors() {
    // Not every release of sfdisk has an option for the sector size of a file, so the table is built here.
    let mut disk = vec![0; 8 << 20];
    let sectors = disk.len() as u64 / 4096;
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    disk[446 + 4] = 0x83;
    disk[446 + 8..446 + 12].copy_from_slice(&256_u32.to_le_bytes());
    disk[446 + 12..446 + 16].copy_from_slice(&256_u32.to_le_bytes());
    let plan = plan_growth(Geometry { sector_size: 4096, sector_count: sectors }, 1, MIB, &mut |at, n| {
        Ok(disk[at as usize..at as usize + n].to_vec())
    });
    let Ok(Plan::Grow(growth)) = plan else { panic!("{plan:?}") };
    assert_eq!((growth.start, growth.old_length, growth.new_length), (256, 256, 1536));
    assert_eq!(growth.patches[0].bytes.len(), 4096);
}

#[test]
fn invalid_tables_are_refused() {
    let two = Image::new(100, "label: gpt\n,10M\n,10M\n");
    assert_eq!(two.plan_error(3), "partition 3 does not exist");
    assert_eq!(two.plan_error(0), "partition 0 does not exist");
    assert_eq!(two.plan_error(500), "partition 500 does not exist");
    for (offset, why) in [
        (512, "the GPT's header is missing"),
        (512 + 60, "the GPT's header is damaged (its checksum is wrong)"),
        (1024 + 32, "the GPT's partition entries are damaged (its checksum is wrong)"),
        (446 + 16 + 4, "it has a hybrid MBR, which would no longer match the GPT"),
        (510, "no partition table in the first sector"),
    ] {
        let mut byte = [0];
        two.file().read_exact_at(&mut byte, offset).unwrap();
        two.file().write_all_at(&[byte[0] ^ 1], offset).unwrap();
        assert_eq!(two.plan_error(1), why);
        two.file().write_all_at(&byte, offset).unwrap();
    }
    assert!(two.plan(1).is_ok());
    two.file().set_len(50 * MIB).unwrap();
    assert_eq!(two.plan_error(2), "the GPT was created for a larger disk");

    let logical = Image::new(100, "label: dos\n,10M\n,,E\n,20M\n,,\n");
    assert_eq!(logical.plan_error(2), "partition 2 is an extended partition");
    assert_eq!(logical.plan_error(5), "growing logical partitions is not supported (partition 5)");
    assert_eq!(logical.plan_error(3), "partition 3 does not exist");
    assert!(matches!(logical.plan(1), Ok(Plan::NoChange { .. })));

    let overlap = Image::new(100, "label: dos\n1: start=2048, size=10M\n2: start=30M, size=10M\n");
    overlap.file().write_all_at(&4096_u32.to_le_bytes(), 446 + 16 + 8).unwrap();
    assert_eq!(overlap.plan_error(1), "the partition overlaps another one");
    overlap.file().write_all_at(&[7], 446).unwrap();
    assert_eq!(overlap.plan_error(1), "no partition table in the first sector");
}

/// A disk of 8 MiB with three partitions of 1 MiB, at 1, 3 and 5 MiB, and the list of a GPT at sector `list_at`.
fn gpt_head(sector: usize, list_at: u64) -> (Vec<u8>, u64) {
    let (count, unit) = ((8 << 20) / sector as u64, MIB / sector as u64);
    let mut head = vec![0; (list_at as usize + 1) * sector + 512];
    set_fields(&mut head, 510, &[(0, 0xaa55, 2)]);
    set_fields(&mut head, 446, &[(4, 0xee, 1), (8, 1, 4), (12, count - 1, 4)]);
    head[sector..sector + 8].copy_from_slice(b"EFI PART");
    let first_usable = list_at + 2;
    let header = [
        (8, 0x1_0000, 4),
        (12, 92, 4),
        (24, 1, 8),
        (32, count - 1, 8),
        (40, first_usable, 8),
        (48, count - 40, 8),
        (72, list_at, 8),
        (80, 4, 4),
        (84, 128, 4),
    ];
    set_fields(&mut head, sector, &header);
    for (entry, start) in [(0, unit), (1, 3 * unit), (2, 5 * unit)] {
        let at = list_at as usize * sector + entry * 128;
        set_fields(&mut head, at, &[(0, 1 + entry as u64, 8), (32, start, 8), (40, start + unit - 1, 8)]);
    }
    check::correct_checksums(&mut head, sector);
    (head, count)
}

/// The same partitions in an MBR.
fn mbr_head(sector: usize) -> (Vec<u8>, u64) {
    let (count, unit) = ((8 << 20) / sector as u64, MIB / sector as u64);
    let mut head = vec![0; sector];
    set_fields(&mut head, 510, &[(0, 0xaa55, 2)]);
    for (entry, start) in [(0, unit), (1, 3 * unit), (2, 5 * unit)] {
        set_fields(&mut head, 446 + entry * 16, &[(4, 0x83, 1), (8, start, 4), (12, unit, 4)]);
    }
    (head, count)
}

/// Sets numbers in little endian at offsets from `base`, each with its length in bytes.
fn set_fields(head: &mut [u8], base: usize, fields: &[(usize, u64, usize)]) {
    for (at, value, length) in fields {
        head[base + at..][..*length].copy_from_slice(&value.to_le_bytes()[..*length]);
    }
}

/// Returns the number of plans that grow a partition, of tables made from this one with up to four other fields.
fn check_mutations(head: &[u8], sector: usize, count: u64, fields: &[(usize, usize)]) -> usize {
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let unit = MIB / sector as u64;
    // Ends of the disk, of numbers and of partitions, from which the values are at most two away.
    let edges =
        [0, count, count - 33, count - 4, 1 << 32, 1 << 63, u64::MAX, unit, 3 * unit, 4 * unit, 6 * unit];
    let mut grown = 0;
    for round in 0..4000 {
        let mut bad = head.to_vec();
        for _ in 0..random(5) {
            let (at, length) = fields[random(fields.len())];
            let value = match random(4) {
                0 => (random(1 << 30) as u64) << random(34),
                1 => random(128) as u64,
                _ => edges[random(edges.len())].wrapping_add(random(5) as u64).wrapping_sub(2),
            };
            set_fields(&mut bad, at, &[(0, value, length)]);
        }
        // Most with correct checksums, so that what they protect is read.
        if round % 8 != 0 {
            check::correct_checksums(&mut bad, sector);
        }
        let sectors = if random(4) == 0 { random(2 * count as usize) as u64 } else { count };
        grown += usize::from(check::check_growth(&bad, (sector as u64, sectors), random(6) as u32));
    }
    grown
}

#[test]
fn no_table_leads_to_growth_outside_the_disk_or_into_another_partition() {
    for sector in [512, 4096] {
        let record =
            (0..4).flat_map(|i| [(0, 1), (4, 1), (8, 4), (12, 4)].map(|(at, n)| (446 + 16 * i + at, n)));
        let record: Vec<_> = record.collect();
        let (head, count) = mbr_head(sector);
        let grown = check_mutations(&head, sector, count, &record);
        assert!(grown > 500, "{grown}");
        for list_at in [2, 3] {
            let (head, count) = gpt_head(sector, list_at);
            let header = [(12, 4), (24, 8), (32, 8), (40, 8), (48, 8), (72, 8), (80, 4), (84, 4)];
            let list = (0..4).flat_map(|i| [(0, 8), (32, 8), (40, 8)].map(|(at, n)| (128 * i + at, n)));
            let list = list.map(|(at, n)| (list_at as usize * sector + at, n));
            let fields: Vec<_> = header.map(|(at, n)| (sector + at, n)).into_iter().chain(list).collect();
            let grown = check_mutations(&head, sector, count, &fields);
            assert!(grown > 500, "{grown}");
        }
    }
}

#[test]
fn damaged_tables_never_lead_to_a_write_outside_the_disk() {
    for sector in [512, 4096] {
        for (good, count) in [gpt_head(sector, 2), mbr_head(sector)] {
            for (i, mut bad) in scratch::mutations(&good, 4000).enumerate() {
                // The signature of the first sector is behind every inserted byte.
                bad.resize(good.len(), 0);
                bad[510..512].copy_from_slice(&[0x55, 0xaa]);
                check::correct_checksums(&mut bad, sector);
                check::check_growth(&bad, (sector as u64, count), i as u32 % 5);
            }
        }
    }
}
