//! Sorting and collecting with little code. The standard library's sorts are compiled again for each type and order, 4 KiB each;
//! here all types share one: see docs/small-binaries.md, "Code". The sorts are stable, and take n·log n comparisons.

#![warn(missing_docs)]

mod named;

use std::cmp::Ordering;

pub use named::Named;

/// Sorts in ascending order.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// Sorts by a key, which is computed for each comparison.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts by a comparison.
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut sources = order(items.len(), &mut |a, b| compare(&items[a], &items[b]));
    // Each cycle of the permutation is rotated in place.
    for start in 0..sources.len() {
        let mut at = start;
        while sources[at] != start {
            let source = std::mem::replace(&mut sources[at], at);
            items.swap(at, source);
            at = source;
        }
        sources[at] = at;
    }
}

/// Returns for each place the index of the item that belongs there.
#[inline(never)]
fn order(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut sources: Vec<usize> = (0..count).collect();
    sources.sort_by(|a, b| compare(*a, *b));
    sources
}

/// Collects into an ordered map or set item by item; `collect` would sort first. The last value of a key counts.
pub fn collect<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    all.extend(items);
    all
}

/// Returns the items in their order, each once. For short lists: an item is compared with all before it.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in items {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn distinct_items_keep_their_order() {
        assert_eq!(distinct(["b", "a", "b", "c", "a"]), ["b", "a", "c"]);
        assert!(distinct::<u8>([]).is_empty());
    }

    /// Every list of up to six items of three values, and a long one.
    #[test]
    fn sorts_like_the_standard_library() {
        let mut lists = vec![Vec::new(), (0..5000_usize).map(|n| (n * 7919 % 613, n)).collect()];
        for length in 1..=6 {
            lists.extend((0..3_usize.pow(length)).map(|number| {
                (0..length as usize).map(|place| (number / 3_usize.pow(place as u32) % 3, place)).collect()
            }));
        }
        assert_eq!(lists.len(), 2 + 1092);
        for list in lists {
            let down = |a: &(usize, usize), b: &(usize, usize)| b.0.cmp(&a.0);
            let (mut ours, mut expected) = (list.clone(), list);
            sort_by_key(&mut ours, |item| item.0);
            expected.sort_by_key(|item| item.0);
            assert_eq!(ours, expected);
            sort_by(&mut ours, down);
            expected.sort_by(down);
            assert_eq!(ours, expected);
            sort(&mut ours);
            expected.sort();
            assert_eq!(ours, expected);
        }
    }

    #[test]
    fn last_value_counts() {
        let map: BTreeMap<_, _> = collect([("b", 1), ("a", 2), ("b", 3)]);
        assert_eq!(map.into_iter().collect::<Vec<_>>(), [("a", 2), ("b", 3)]);
    }
}
