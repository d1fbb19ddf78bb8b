//! The swap file of `swap:` in mounts: its size and creation.

use config::schema::{Format, INT, STR, Type, word};
use config::{FromNode, Node, Reader, Value};
use system::{Error, Result, System, debug, info};

use crate::accounts::user_keys::SingleLine;
use crate::or_warn;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

config::keys! {
    pub struct Swap {
        /// The path of the swap file.
        filename: SingleLine = "/swap.img";
        /// The size in bytes, a size such as `2G`, or `auto`.
        size: Option<Size>;
        /// The maximum size for `auto`.
        maxsize: Option<Size>, types [INT, STR.format(Format::Size)];
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Auto,
    Bytes(u64),
}

impl FromNode for Size {
    const SCHEMA: &'static [Type] = &[word("auto"), INT, STR.format(Format::Size)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Size> {
        let size = match &node.value {
            Value::Int(n) => u64::try_from(*n).ok().map(Size::Bytes),
            Value::Float(f) => parse_size(&f.to_string()).map(Size::Bytes),
            Value::Str(text) if text.eq_ignore_ascii_case("auto") => Some(Size::Auto),
            Value::Str(text) => parse_size(text).map(Size::Bytes),
            _ => None,
        };
        size.or_else(|| reader.type_error(node, "a size: bytes, a string such as 2G, or auto"))
    }
}

/// Parses a number with a suffix of powers of 1024: `1.5G`, `512M`, `64KiB`, `7`.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_uppercase();
    let text = text.strip_suffix("IB").or_else(|| text.strip_suffix('B')).unwrap_or(&text);
    let (number, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number = number.trim();
    let good = |b: u8| b.is_ascii_digit() || b == b'.';
    if number.is_empty() || !number.bytes().all(good) {
        return None;
    }
    let bytes = encoding::float::parse(number)? * (1_u64 << shift) as f64;
    (bytes < 9e18).then_some(bytes as u64)
}

/// The values, in bytes, from which an automatic size is computed.
#[derive(Debug, Clone, Copy)]
struct Resources {
    memory: u64,
    free: u64,
}

/// Returns upstream's suggested size: the memory's size for small machines, 4 GiB for common ones, the root of the GiBs
/// for large ones; at most a quarter of the free space, twice the memory, and the user's limit.
fn suggested_size(resources: Resources, limit: Option<u64>) -> u64 {
    let good = match resources.memory {
        small if small < 4 * GIB => small,
        usual if usual < 16 * GIB => 4 * GIB,
        large => ((large as f64 / GIB as f64).sqrt().round() as u64) * GIB,
    };
    let max = match limit {
        None => (resources.free / 4).min(resources.memory.saturating_mul(2)),
        Some(limit) => limit.min(resources.free / 10 * 9),
    };
    good.min(max)
}

/// Returns `MemTotal` of /proc/meminfo.
fn parse_mem_total(meminfo: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let mut words = value.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    (words.next() == Some("kB")).then(|| number.saturating_mul(1024))
}

/// Returns whether a file is in use as swap (/proc/swaps).
fn is_active_swap(swaps: &str, file: &str) -> bool {
    swaps.lines().skip(1).any(|l| l.split_whitespace().next() == Some(file))
}

/// Returns the first page of a swap area of `bytes` bytes (the format of mkswap(8), version 1, in the machine's byte
/// order). `None` if it is too small for any page.
fn swap_header(bytes: u64, page: usize, id: [u8; 16]) -> Option<Vec<u8>> {
    let pages = u32::try_from(bytes / page as u64).unwrap_or(u32::MAX);
    // The kernel requires some pages beyond the header, as mkswap does.
    if pages < 10 {
        return None;
    }
    let mut header = vec![0; page];
    header[1024..1028].copy_from_slice(&1_u32.to_ne_bytes());
    header[1028..1032].copy_from_slice(&(pages - 1).to_ne_bytes());
    header[1036..1052].copy_from_slice(&id);
    header[page - 10..].copy_from_slice(b"SWAPSPACE2");
    Some(header)
}

/// Returns the bytes of a UUID's text.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes?.try_into().ok()
}

/// Creates the swap file if it is configured. Returns its name if it exists, for fstab.
pub fn ensure_swap_file(sys: &System, swap: &Swap) -> Option<String> {
    let file = swap.filename.0.clone();
    if file.is_empty() || matches!(swap.size, None | Some(Size::Bytes(0))) {
        debug!(sys, "no swap file is configured");
        return None;
    }
    if !sys.is_live() {
        sys.plan_device(format!(
            "create the swap file {file}, with its line in fstab, when the machine boots"
        ));
        return None;
    }
    if sys.exists(&file) {
        match sys.read_text("/proc/swaps") {
            Ok(swaps) if !is_active_swap(&swaps, &file) => debug!(sys, "{file} exists, but is not in use"),
            Ok(_) => {
                debug!(sys, "{file} is already in use as swap");
                return Some(file);
            }
            Err(e) => {
                debug!(sys, "{e}; keeping {file}");
                return Some(file);
            }
        }
    }
    or_warn!(sys, create(sys, &file, swap), "no swap").filter(|created| *created).map(|_| file)
}

fn create(sys: &System, file: &str, swap: &Swap) -> Result<bool> {
    let directory = match file.rsplit_once('/') {
        Some((directory, _)) if file.starts_with('/') => {
            if directory.is_empty() {
                "/"
            } else {
                directory
            }
        }
        _ => return Err(Error::new(format!("{file}: expected an absolute path"))),
    };
    sys.create_dir_all(directory, 0o755)?;
    let size = match swap.size {
        Some(Size::Bytes(bytes)) => bytes,
        _ => {
            let memory = parse_mem_total(&sys.read_text("/proc/meminfo")?)
                .ok_or_else(|| Error::new("/proc/meminfo: MemTotal is missing"))?;
            let limit = if let Some(Size::Bytes(n)) = swap.maxsize { Some(n) } else { None };
            suggested_size(Resources { memory, free: sys.free_space(directory)? }, limit)
        }
    };
    let size = size / MIB * MIB;
    if size == 0 {
        debug!(sys, "no swap file: the size is 0");
        return Ok(false);
    }
    let id = parse_uuid(&sys.read_text("/proc/sys/kernel/random/uuid")?).unwrap_or_default();
    let header = swap_header(size, sys.page_size(), id)
        .ok_or_else(|| Error::new(format!("{file}: {} MiB is too small for a swap file", size / MIB)))?;
    sys.create_swap_file(file, size, &header)?;
    info!(sys, "created swap file {file} ({} MiB)", size / MIB);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        for (text, bytes) in [
            ("7", Some(7)),
            ("1M", Some(MIB)),
            ("1.5g", Some(GIB * 3 / 2)),
            ("64KiB", Some(65536)),
            ("2 GB", Some(2 * GIB)),
            (".5T", Some(GIB * 512)),
            ("10B", Some(10)),
            ("", None),
            ("B", None),
            ("-1M", None),
            ("1e3", None),
            ("1.2.3", None),
            ("99999999T", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }

    #[test]
    fn suggested_size_depends_on_memory_and_free_space() {
        let g = GIB;
        for (memory, free, limit, size) in [
            (g, 100 * g, None, g),
            (2 * g, 4 * g, None, g),
            (8 * g, 100 * g, None, 4 * g),
            (64 * g, 1000 * g, None, 8 * g),
            (20 * g, 1000 * g, None, 4 * g),
            (64 * g, 1000 * g, Some(3 * g), 3 * g),
            (8 * g, 2 * g, Some(100 * g), 2 * g / 10 * 9),
            (8 * g, 0, None, 0),
        ] {
            assert_eq!(suggested_size(Resources { memory, free }, limit), size, "{memory} {free} {limit:?}");
        }
    }

    #[test]
    fn meminfo_swaps_and_uuid_are_parsed() {
        assert_eq!(parse_mem_total("MemTotal:        2000 kB\nMemFree: 1 kB\n"), Some(2_048_000));
        assert_eq!(parse_mem_total("MemTotal: x kB\n"), None);
        let swaps = "Filename Type Size Used Priority\n/swap.img   file 1 0 -2\n";
        assert!(
            is_active_swap(swaps, "/swap.img")
                && !is_active_swap(swaps, "/swap")
                && !is_active_swap(swaps, "Filename")
        );
        assert_eq!(parse_uuid("00112233-4455-6677-8899-aabbccddeeff\n").unwrap()[15], 0xff);
        assert_eq!(parse_uuid("zz"), None);
        assert_eq!(swap_header(9 * 4096, 4096, [0; 16]), None);
    }

    /// blkid(8) reads the header as the kernel does.
    #[test]
    fn blkid_recognizes_the_swap_file() {
        let sandbox = crate::tests::sandbox::Sandbox::live("{}");
        let file = sandbox.top.join("swap").to_string_lossy().into_owned();
        let swap =
            Swap { filename: SingleLine(file.clone()), size: Some(Size::Bytes(2 * MIB + 5)), maxsize: None };
        assert_eq!(ensure_swap_file(&sandbox.sys, &swap), Some(file.clone()));
        let meta = sandbox.sys.metadata(&file).unwrap();
        assert_eq!((meta.len(), sandbox.file(&file).1), (2 * MIB, 0o600));
        assert!(std::os::unix::fs::MetadataExt::blocks(&meta) * 512 >= 2 * MIB, "it has holes");
        let command = system::Command::new(["blkid", "-p", "-o", "export", &file]).read_only();
        let output = sandbox.sys.run(&command).unwrap().text();
        assert!(output.contains("TYPE=swap\n") && output.contains("VERSION=1\n"), "{output}");
        assert!(!output.contains("UUID=00000000"), "{output}");
        // Too small, no directory, not configured.
        for (name, size) in [("a", Size::Bytes(5)), ("b", Size::Bytes(0)), ("swap/x", Size::Bytes(2 * MIB))] {
            let filename = sandbox.top.join(name).to_string_lossy().into_owned();
            let swap = Swap { filename: SingleLine(filename.clone()), size: Some(size), maxsize: None };
            assert_eq!(ensure_swap_file(&sandbox.sys, &swap), None, "{name}");
            assert!(!sandbox.sys.exists(&filename), "{name}");
        }
        assert_eq!(sandbox.logged_warnings().len(), 1, "{:?}", sandbox.logged_warnings());
    }
}
