//! Tests of all datasources, and what they and the fuzz targets call.

pub mod fuzzing;
pub mod readers;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod wait_limits;

/// Without `datasource_list` these are searched.
#[test]
fn every_name_of_the_default_list_has_a_row() {
    let names: Vec<&str> = crate::DATASOURCES.iter().map(|row| row.name).collect();
    assert_eq!(names, clouds::SEARCH_ORDER);
}
