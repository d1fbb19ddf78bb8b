//! Encodings that several crates meet: base64, gzip, percent-encoding, MD5 for the names of cached files, SHA for
//! fingerprints, the hash of passwords, Python's quotes. Pure functions from bytes to bytes; nothing here reads, writes or logs.

pub mod base64;
pub mod crypt;
pub mod gzip;
pub mod md5;
pub mod percent;
pub mod python;
pub mod sha;
