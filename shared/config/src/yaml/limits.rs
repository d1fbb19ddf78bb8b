//! The limits of a YAML text.

/// The largest text in bytes. Clouds allow 64 KiB of user-data; local seeds may have some megabytes.
pub const MAX_BYTES: usize = 32 << 20;
/// The largest number of values and keys, which need some hundred megabytes of memory during parsing.
pub const MAX_NODES: usize = encoding::json::MAX_VALUES;
/// The deepest nesting, counted through aliases. JSON parsers stop at 128, and values are stored as JSON inside other
/// maps.
pub const MAX_DEPTH: usize = 100;
/// The largest number of `%TAG` directives; the parser compares each with all before it.
pub const MAX_TAG_DIRECTIVES: usize = 100;
/// The number of nodes (or 64-byte units of text) that all aliases and merge keys of a string may copy: enough for any
/// real configuration, too little for a "billion laughs" attack.
pub const MAX_COPIES: usize = 200_000;
