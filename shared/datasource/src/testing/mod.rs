//! Tests of all datasources, and what they and the fuzz targets call.

pub mod fuzzing;
pub mod readers;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod wait_limits;
