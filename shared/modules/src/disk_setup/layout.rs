//! Converts a requested layout into arguments and input of partitioning tools, and compares a partition table with it. Reads
//! and writes no devices.

use blockdev::PartitionTable;
use system::{Error, Result};

use super::keys::{Layout, PartitionSpec, TableKind};

/// A partition in sectors; without a size it extends to the end of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub sectors: Option<u64>,
    pub kind: Option<String>,
}

/// Types of GPT partitions by the codes of gdisk. Several codes mean Microsoft's data partitions.
const GUIDS: &[(&str, &str)] = &[
    ("0700", MICROSOFT_DATA),
    ("0100", MICROSOFT_DATA),
    ("0400", MICROSOFT_DATA),
    ("0600", MICROSOFT_DATA),
    ("0B00", MICROSOFT_DATA),
    ("0C00", MICROSOFT_DATA),
    ("0E00", MICROSOFT_DATA),
    ("0C01", "E3C9E316-0B5C-4DB8-817D-F92DF00215AE"),
    ("2700", "DE94BBA4-06D1-4D40-A16A-BFD50179D6AC"),
    ("4100", "9E1A2D38-C612-4316-AA26-8B49521E5A8B"),
    ("8200", "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"),
    ("8300", LINUX),
    ("8302", "933AC7E1-2EB4-4F13-B844-0E14E2AEF915"),
    ("8303", "44479540-F297-41B2-9AF7-D131D5F0458A"),
    ("8304", "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"),
    ("8305", "B921B045-1DF0-41C3-AF44-4C6F280D3FAE"),
    ("8306", "3B8F8425-20E0-4F3B-907F-1A25A76F98E8"),
    ("8307", "69DAD710-2CE4-4E3C-B16C-21A1D49ABED3"),
    ("8309", "CA7D7CCB-63ED-4C53-861C-1742536059CC"),
    ("8E00", "E6D6D379-F507-44C2-A23C-238F2A3DF928"),
    ("BF01", "6A898CC3-1DD2-11B2-99A6-080020736631"),
    ("EF00", "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"),
    ("EF02", "21686148-6449-6E6F-744E-656564454649"),
    ("FD00", "A19D880F-05FC-4D3B-A006-743F0F84911E"),
];
const LINUX: &str = "0FC63DAF-8483-4772-8E79-3D69D8477DE4";
const MICROSOFT_DATA: &str = "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7";

/// Returns the partitions of a layout on a disk of that many sectors.
///
/// # Errors
/// Fails if the table cannot have these partitions, or if a type is not one of the table.
pub fn parts(table: TableKind, layout: &Layout, sectors: u64) -> Result<Vec<Part>> {
    let Layout::Partitions(partitions) = layout else { return Ok(vec![Part { sectors: None, kind: None }]) };
    let max = if table == TableKind::Mbr { 4 } else { 128 };
    if partitions.len() > max {
        return Err(Error::new(format!(
            "layout: expected at most {max} partitions, found {}",
            partitions.len()
        )));
    }
    let (_, sized) = partitions.split_last().ok_or_else(|| Error::new("layout: no partitions"))?;
    if sized.iter().map(|wanted| wanted.percent).sum::<f64>() >= 100.0 {
        return Err(Error::new("layout: no space is left for the last partition"));
    }
    let part = |(index, wanted): (usize, &PartitionSpec)| {
        let kind = wanted.kind.as_deref().map(|kind| checked_type(table, kind)).transpose()?;
        let count = (sectors as f64 * (wanted.percent / 100.0)) as u64;
        Ok(Part { sectors: (index < sized.len()).then_some(count), kind })
    };
    partitions.iter().enumerate().map(part).collect()
}

/// Returns a type in the form of the tools: two hexadecimal digits for an MBR, four or a GUID for GPT.
fn checked_type(table: TableKind, kind: &str) -> Result<String> {
    let kind = kind.to_ascii_uppercase();
    let is_hex = kind.bytes().all(|b| b.is_ascii_hexdigit());
    match (table, kind.len()) {
        (TableKind::Mbr, 1 | 2) if is_hex => Ok(kind),
        (TableKind::Mbr, _) if kind == "LINUX" => Ok("83".into()),
        (TableKind::Mbr, _) if kind == "SWAP" => Ok("82".into()),
        (TableKind::Gpt, 2) if is_hex => Ok(kind + "00"),
        (TableKind::Gpt, 4) if is_hex => Ok(kind),
        (TableKind::Gpt, 36) if is_guid(&kind) => Ok(kind),
        (TableKind::Gpt, _) if kind == "LINUX" => Ok("8300".into()),
        (TableKind::Gpt, _) if kind == "SWAP" => Ok("8200".into()),
        (TableKind::Mbr, _) => Err(Error::new("layout: expected a partition type of two hexadecimal digits")),
        (TableKind::Gpt, _) => {
            Err(Error::new("layout: expected a partition type of two or four hexadecimal digits, or a GUID"))
        }
    }
}

fn is_guid(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let mut groups = text.split('-');
    lengths.iter().all(|length| {
        groups.next().is_some_and(|g| g.len() == *length && g.bytes().all(|b| b.is_ascii_hexdigit()))
    }) && groups.next().is_none()
}

/// Returns the input of sfdisk for an MBR.
pub fn mbr_script(parts: &[Part]) -> String {
    script(parts, |kind| Ok(kind.unwrap_or("83").to_string())).unwrap_or_default()
}

/// Returns the input of sfdisk for GPT.
///
/// # Errors
/// Fails for a code that only gdisk knows.
pub fn gpt_script(parts: &[Part]) -> Result<String> {
    let unknown = || Error::new("layout: sgdisk is not installed; expected the GUID of the partition type");
    script(parts, |kind| guid(kind.unwrap_or(LINUX)).map(String::from).ok_or_else(unknown))
}

fn script(parts: &[Part], kind: impl Fn(Option<&str>) -> Result<String>) -> Result<String> {
    let line = |part: &Part| {
        let size = part.sectors.map(|n| n.to_string()).unwrap_or_default();
        Ok(format!(",{size},{}\n", kind(part.kind.as_deref())?))
    };
    parts.iter().map(line).collect()
}

/// Returns the arguments of sgdisk that create the partitions.
pub fn sgdisk_arguments(parts: &[Part]) -> Vec<String> {
    let mut arguments = Vec::new();
    for (part, number) in parts.iter().zip(1..) {
        let end = part.sectors.map_or("0".to_string(), |sectors| format!("+{sectors}"));
        arguments.extend(["-n".to_string(), format!("{number}:0:{end}")]);
        if let Some(kind) = &part.kind {
            arguments.extend(["-t".to_string(), format!("{number}:{kind}")]);
        }
    }
    arguments
}

/// Returns the GUID of a type.
fn guid(kind: &str) -> Option<&str> {
    if kind.len() == 36 {
        return Some(kind);
    }
    GUIDS.iter().find(|(code, _)| code.eq_ignore_ascii_case(kind)).map(|(_, guid)| *guid)
}

/// Returns whether a partition table is as requested: it has as many partitions, and these have the configured types.
///
/// # Errors
/// Fails if a type cannot be compared.
pub fn matches(layout: &Layout, table: Option<&PartitionTable>) -> Result<bool> {
    let found: Vec<&str> = table
        .iter()
        .flat_map(|table| &table.partitions)
        .map(|partition| partition.kind.as_str())
        .filter(|kind| !is_extended(kind))
        .collect();
    let Layout::Partitions(partitions) = layout else { return Ok(!found.is_empty()) };
    if found.len() != partitions.len() {
        return Ok(false);
    }
    for (wanted, found) in partitions.iter().zip(found) {
        if let Some(kind) = &wanted.kind
            && !same_type(kind, found)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_type(wanted: &str, found: &str) -> Result<bool> {
    // A type is valid for one of the tables; which one the disk has does not matter.
    let long = |kind: &str| checked_type(TableKind::Gpt, kind);
    let (wanted, found) = match (long(wanted), long(found)) {
        (Ok(wanted), Ok(found)) => (wanted, found),
        _ => return Ok(wanted.eq_ignore_ascii_case(found.trim_start_matches('0'))),
    };
    if wanted.len() == found.len() {
        return Ok(wanted == found);
    }
    match (guid(&wanted), guid(&found)) {
        (Some(wanted), Some(found)) => Ok(wanted == found),
        _ => Err(Error::new(format!("cannot compare the partition types {wanted} and {found}"))),
    }
}

/// Returns whether the partitions of a GPT are at the positions that the partitioning tools would choose for a layout, so that
/// rewriting the table moves no partition.
pub fn has_same_positions(parts: &[Part], sector_size: u64, table: &PartitionTable) -> bool {
    const TABLE_SECTOR: u64 = 512;
    const ALIGNMENT: u64 = (1 << 20) / TABLE_SECTOR;
    let mut start = ALIGNMENT;
    parts.len() == table.partitions.len()
        && parts.iter().zip(&table.partitions).zip(1..).all(|((part, found), number)| {
            let size = part.sectors.map_or(found.size, |n| n.saturating_mul(sector_size / TABLE_SECTOR));
            let is_same = (found.number, found.start, found.size) == (number, start, size);
            start = start.saturating_add(size).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
            is_same
        })
}

/// Returns whether a partition of this type holds logical partitions.
pub fn is_extended(kind: &str) -> bool {
    matches!(kind, "05" | "0f" | "85")
}

/// Returns whether a partition of this type holds a boot loader without a file system: BIOS boot, PReP.
pub fn is_boot_loader(kind: &str) -> bool {
    matches!(kind, "41" | "21686148-6449-6e6f-744e-656564454649" | "9e1a2d38-c612-4316-aa26-8b49521e5a8b")
}
