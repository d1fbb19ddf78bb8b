//! The two default lists of datasources, computed from the table: a program that needs only the names contains only
//! the names (docs/small-binaries.md, "Code").

use crate::table::CLOUDS;

/// The default `datasource_list` of cloud-init: all clouds, in the order of the table.
pub const SEARCH_ORDER: [&str; CLOUDS.len()] = {
    let mut names = [""; CLOUDS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = CLOUDS[at].name;
        at += 1;
    }
    names
};

/// The number of clouds that ds-identify checks by default.
const IDENTIFIED: usize = {
    let (mut count, mut at) = (0, 0);
    while at < CLOUDS.len() {
        if CLOUDS[at].identify_order > 0 {
            count += 1;
        }
        at += 1;
    }
    count
};

/// The clouds that ds-identify checks when the configuration has no `datasource_list`, in upstream's order. The positions may
/// have gaps, so that a row can be removed; a duplicate is a compile-time error.
pub const IDENTIFY_ORDER: [&str; IDENTIFIED] = {
    let mut names = [""; IDENTIFIED];
    let mut at = 0;
    while at < CLOUDS.len() {
        if CLOUDS[at].identify_order > 0 {
            let rank = identify_rank(CLOUDS[at].identify_order);
            assert!(names[rank].is_empty(), "two clouds have the same identify_order");
            names[rank] = CLOUDS[at].name;
        }
        at += 1;
    }
    names
};

/// Returns the number of clouds that ds-identify checks before this position.
const fn identify_rank(position: usize) -> usize {
    let (mut rank, mut at) = (0, 0);
    while at < CLOUDS.len() {
        if CLOUDS[at].identify_order > 0 && CLOUDS[at].identify_order < position {
            rank += 1;
        }
        at += 1;
    }
    rank
}
