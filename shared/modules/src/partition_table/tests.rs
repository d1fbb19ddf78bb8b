//! Tables created by sfdisk(8), grown, and verified by sfdisk and sgdisk.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use scratch::TempDir;

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

#[test]
fn corrupt_tables_never_panic() {
    let mut seed = 1_u64;
    let image = Image::new(20, "label: gpt\n,5M\n,5M\n");
    let good = fs::read(image.path()).unwrap();
    for _ in 0..300 {
        let mut disk = good.clone();
        for _ in 0..4 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            disk[(seed >> 33) as usize % 2048] = (seed >> 20) as u8;
        }
        // With a correct checksum of the header, its content is checked.
        disk[512 + 12..512 + 16].copy_from_slice(&92_u32.to_le_bytes());
        disk[512 + 16..512 + 20].fill(0);
        let sum = encoding::gzip::crc32(&disk[512..512 + 92]);
        disk[512 + 16..512 + 20].copy_from_slice(&sum.to_le_bytes());
        let size = Geometry { sector_size: 512, sector_count: disk.len() as u64 / 512 };
        let _ = plan_growth(size, (seed >> 50) as u32 % 6, MIB, &mut |at, n| {
            Ok(disk.iter().skip(at as usize).take(n).copied().collect())
        });
    }
}
