//! The keys `disk_setup` and `fs_setup`. An entry that cannot be read stays in its list as `None`, so that the others keep
//! their places.

use config::schema::{BOOL, Format, INT, STR, Type, key, list, map, map_of, word};
use config::{FromNode, KeyStruct, Node, Reader, Value};

use crate::accounts::user_keys::SingleLine;
use crate::values::text_values::text_types;

config::string_enum! {
    pub enum TableKind {
        Mbr = "mbr",
        Gpt = "gpt",
    }
}

config::keys! {
    pub struct Disk {
        /// The partition table type.
        table_type: TableKind = "mbr";
        /// The size of each partition in percent of the disk, or `[PERCENT, TYPE]`; the last one takes the rest. `true`
        /// makes one partition, `remove` deletes the partition table, `false` changes nothing.
        layout: Layout = false;
        /// Partition the disk even if it holds data.
        overwrite: bool = false;
    }
    pub struct FileSystem {
        /// The file system label.
        label: Option<SingleLine>;
        /// The file system type, such as `ext4`.
        filesystem: Option<TypeName>;
        /// The device path or alias; `DEVICE.N` is its partition N.
        device: Option<SingleLine>;
        /// The partition number. `auto` selects a partition with this label and type, otherwise an empty one; `any`
        /// ignores labels; `none` uses the whole device.
        partition: Selection = "any";
        /// Replace an existing file system.
        overwrite: Option<bool>;
        /// A file system type that may be replaced.
        replace_fs: Option<TypeName>;
        /// Additional arguments for mkfs.
        extra_opts: Words;
        /// The command to run instead of mkfs. `%(label)s`, `%(filesystem)s` and `%(device)s` are replaced.
        cmd: Option<CustomCommand>;
    }
    pub struct Keys {
        /// Disks to partition, by path or alias.
        disk_setup: Option<Disks>;
        /// File systems to create.
        fs_setup: FileSystems;
    }
}

/// The value of `disk_setup`: names of disks and their settings; `None` for invalid settings.
#[derive(Debug, Clone, Default)]
pub struct Disks(pub Vec<(String, Option<Disk>)>);

impl FromNode for Disks {
    const SCHEMA: &'static [Type] = &[map_of(
        &key("<device>", &[map(Disk::TABLE)])
            .doc("The partition table of a disk, which is a path or an alias."),
    )];
    fn read(node: &Node, reader: &mut Reader) -> Option<Disks> {
        let map = reader.map(node, "a map of disks")?;
        let read = |(name, value): (&Node, &Node)| {
            let name = SingleLine::read(name, reader)?.0;
            let disk = reader.nested(&name, |reader| {
                reader.map(value, "a map")?;
                Disk::read(value, reader)
            });
            Some((name, disk))
        };
        Some(Disks(map.iter().filter_map(read).collect()))
    }
}

/// The value of `fs_setup`; `None` for an invalid entry.
#[derive(Debug, Clone, Default)]
pub struct FileSystems(pub Vec<Option<FileSystem>>);

impl FromNode for FileSystems {
    const SCHEMA: &'static [Type] = &[list(&[map(FileSystem::TABLE)])];
    const ABSENT: Option<fn() -> Self> = Some(Self::default);
    fn read(node: &Node, reader: &mut Reader) -> Option<FileSystems> {
        if node.is_null() {
            return Some(FileSystems::default());
        }
        let items = reader.list(node, "a list of file systems")?;
        Some(FileSystems(reader.items(items, |item, reader| {
            reader.map(item, "a map")?;
            FileSystem::read(item, reader)
        })))
    }
}

/// A partition: its size in percent of the disk, and its type as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionSpec {
    pub percent: f64,
    pub kind: Option<String>,
}

/// The value of `layout`.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    Nothing,
    Remove,
    Whole,
    Partitions(Vec<PartitionSpec>),
}

impl FromNode for Layout {
    const SCHEMA: &'static [Type] = &[word("remove"), BOOL, list(&[INT, list(&[INT, STR]).range(2, 2)])];
    fn read(node: &Node, reader: &mut Reader) -> Option<Layout> {
        match &node.value {
            Value::Null => Some(Layout::Nothing),
            Value::Str(text) if text.eq_ignore_ascii_case("remove") => Some(Layout::Remove),
            Value::Seq(items) if items.is_empty() => Some(Layout::Nothing),
            Value::Seq(items) => {
                let partitions = reader.items(items, read_partition).into_iter();
                partitions.collect::<Option<Vec<_>>>().map(Layout::Partitions)
            }
            Value::Bool(true) => Some(Layout::Whole),
            Value::Bool(false) => Some(Layout::Nothing),
            _ => reader.type_error(node, "true, false, remove, or a list of sizes in percent"),
        }
    }
}

fn read_partition(node: &Node, reader: &mut Reader) -> Option<PartitionSpec> {
    let (percent, kind) = match &node.value {
        Value::Seq(items) => match &items[..] {
            [percent, kind] => (percent, kind.scalar_text()),
            _ => return reader.type_error(node, "a size and a type"),
        },
        _ => (node, None),
    };
    let is_typed = node.as_seq().is_some();
    let number = percent.scalar_text().and_then(|text| encoding::float::parse(text.trim()));
    match number.filter(|number| *number > 0.0 && *number <= 100.0) {
        Some(_) if is_typed && kind.is_none() => reader.type_error(node, "a size and a type"),
        Some(percent) => Some(PartitionSpec { percent, kind }),
        None => reader.type_error(percent, "a size in percent (above 0, at most 100)"),
    }
}

/// The value of `partition`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    Auto,
    Any,
    Raw,
    Number(u32),
}

impl FromNode for Selection {
    const SCHEMA: &'static [Type] =
        &[word("auto"), word("any"), word("none"), INT, STR.format(Format::Digits)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Selection> {
        let text = node.scalar_text().unwrap_or_default().to_ascii_lowercase();
        let number = || text.parse().ok().filter(|n| (1..=256).contains(n)).map(Selection::Number);
        match (&node.value, text.as_str()) {
            (Value::Null, _) | (_, "none") => Some(Selection::Raw),
            (_, "auto") => Some(Selection::Auto),
            (_, "any") => Some(Selection::Any),
            _ => {
                number().or_else(|| reader.type_error(node, "auto, any, none, or the number of a partition"))
            }
        }
    }
}

text_types! {
    /// The type of a file system, which becomes part of a program's name.
    pub struct TypeName: "a type of file system, such as ext4", |text| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+');
        !text.is_empty() && text.len() <= 64 && text.chars().all(fits)
    };
}

/// Arguments: a list, or a string with spaces between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words(pub Vec<String>);

impl FromNode for Words {
    const SCHEMA: &'static [Type] = &[list(&[STR]), STR];
    const ABSENT: Option<fn() -> Self> = Some(Self::default);
    fn read(node: &Node, reader: &mut Reader) -> Option<Words> {
        match &node.value {
            Value::Null => Some(Words::default()),
            Value::Seq(items) => {
                let lines = reader.items(items, SingleLine::read).into_iter();
                lines.map(|line| line.map(|line| line.0)).collect::<Option<_>>().map(Words)
            }
            _ => {
                let line = SingleLine::read(node, reader)?.0;
                Some(Words(line.split_whitespace().map(String::from).collect()))
            }
        }
    }
}

/// `cmd`: a line of shell, or a list of arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustomCommand {
    Shell(String),
    Words(Vec<String>),
}

impl FromNode for CustomCommand {
    const SCHEMA: &'static [Type] = &[list(&[STR]), STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<CustomCommand> {
        match &node.value {
            Value::Seq(items) if !items.is_empty() => {
                Words::read(node, reader).map(|w| CustomCommand::Words(w.0))
            }
            Value::Str(text) if !text.trim().is_empty() && !text.contains('\0') => {
                Some(CustomCommand::Shell(text.clone()))
            }
            _ => reader.type_error(node, "a command: a string, or a list of strings"),
        }
    }
}
