//! Encodings and digests that several crates use. Every function is pure: it maps bytes or text to bytes or text, and
//! nothing here touches files, the clock or the log.

#![warn(missing_docs)]

pub mod base64;
pub mod calendar;
pub mod crypt;
pub mod float;
pub mod gzip;
pub mod hex;
pub mod json;
pub mod md5;
pub mod percent;
pub mod printable;
pub mod python;
pub mod sha;
pub mod shell;
pub mod table;
mod words;
