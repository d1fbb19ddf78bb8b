//! Tests of all datasources, and what they and the fuzz targets call.

pub mod fuzzing;
#[cfg(test)]
mod nimbus;
pub mod readers;
#[cfg(test)]
mod reference;
#[cfg(test)]
#[path = "../../tests/services/server.rs"]
#[allow(dead_code)]
mod server;
#[cfg(test)]
mod wait_limits;

/// Without `datasource_list` these are searched.
#[test]
fn every_name_of_the_default_list_has_a_row() {
    let names: Vec<&str> = crate::DATASOURCES.iter().map(|row| row.name).collect();
    assert_eq!(names, clouds::SEARCH_ORDER);
}
