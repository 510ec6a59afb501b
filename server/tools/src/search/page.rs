//! The page of a long list that the model reads, and how much of it fits a card.

use serde::Serialize;

/// The part of a long list that is shown.
#[derive(Debug, PartialEq)]
pub struct Page {
    /// What is shown, in order.
    pub paths: Vec<String>,
    /// How many of how many top-level entries the page covers; `None` when the page is just the head.
    pub sampled: Option<Coverage>,
}

/// How much of the top level a sample covers.
#[derive(Debug, PartialEq)]
pub struct Coverage {
    /// Entries of which at least one path is shown.
    pub n_shown: usize,
    /// All entries.
    pub n_total: usize,
}

/// At most `cap` of `paths`: the head, or, where top-level entries hold several paths, a fair sample over the entries.
///
/// The sample gives each entry under `root` a path in turn, in first-seen order, and shows the chosen paths by entry.
/// Source: `spec/tools-files-shell.md` §6, sampling.
pub fn page(paths: &[String], root: &str, cap: usize) -> Page {
    if paths.len() <= cap {
        return Page { paths: paths.to_vec(), sampled: None };
    }
    let mut groups: Vec<(&str, Vec<&String>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for path in paths {
        let entry = top_entry(path, root);
        let place = *places.entry(entry).or_insert_with(|| {
            groups.push((entry, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(path);
    }
    if groups.iter().all(|(_, paths)| paths.len() == 1) {
        return Page { paths: paths[..cap].to_vec(), sampled: None };
    }
    let mut taken = vec![0; groups.len()];
    let mut room = cap;
    while room > 0 {
        for (taken, (_, paths)) in taken.iter_mut().zip(&groups) {
            if room > 0 && *taken < paths.len() {
                *taken += 1;
                room -= 1;
            }
        }
    }
    let chosen = taken.iter().zip(&groups).flat_map(|(taken, (_, paths))| paths[..*taken].iter());
    Page {
        paths: chosen.map(|path| (*path).clone()).collect(),
        sampled: Some(Coverage {
            n_shown: taken.iter().filter(|taken| **taken > 0).count(),
            n_total: groups.len(),
        }),
    }
}

/// First segment of a path under the search root.
fn top_entry<'a>(path: &'a str, root: &str) -> &'a str {
    let below = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path);
    below.split('/').next().unwrap_or(below)
}

/// How many leading `items` fit `max_bytes` serialised; at least one.
pub fn fitting<T: Serialize>(items: &[T], max_bytes: usize) -> usize {
    let mut n_bytes = 0;
    let fits = |item: &&T| {
        n_bytes += serde_json::to_string(item).map_or(0, |json| json.len()) + 1;
        n_bytes <= max_bytes
    };
    items.iter().take_while(fits).count().max(items.len().min(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[&str], cap: usize, expected: &[&str], coverage: Option<(usize, usize)>) {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let page = page(&paths, ".", cap);
        assert_eq!(page.paths, expected);
        assert_eq!(page.sampled.map(|coverage| (coverage.n_shown, coverage.n_total)), coverage);
    }

    #[test]
    fn a_list_within_the_cap_is_whole() {
        check(&["b", "a"], 2, &["b", "a"], None);
    }

    #[test]
    fn groups_of_one_give_the_head() {
        check(&["a/1", "b/1", "c/1"], 2, &["a/1", "b/1"], None);
    }

    #[test]
    fn each_entry_gets_one_before_any_gets_two() {
        let paths = ["v/1", "v/2", "src/1", "guide/1"];
        check(&paths, 3, &["v/1", "src/1", "guide/1"], Some((3, 3)));
        check(&paths, 2, &["v/1", "src/1"], Some((2, 3)));
    }

    #[test]
    fn extra_room_goes_round_again() {
        let paths = ["v/1", "v/2", "v/3", "src/1", "src/2", "guide/1"];
        check(&paths, 5, &["v/1", "v/2", "src/1", "src/2", "guide/1"], Some((3, 3)));
    }

    #[test]
    fn entries_are_counted_below_the_search_root() {
        let paths: Vec<String> = ["pk/a/1", "pk/a/2", "pk/b/1"].map(str::to_owned).to_vec();
        let page = page(&paths, "pk", 2);
        assert_eq!(page.paths, ["pk/a/1", "pk/b/1"]);
        assert_eq!(page.sampled, Some(Coverage { n_shown: 2, n_total: 2 }));
    }

    #[test]
    fn one_item_is_kept_however_large() {
        let items = ["x".repeat(100), "y".to_owned()];
        assert_eq!(fitting(&items, 10), 1);
        assert_eq!(fitting(&items, 1000), 2);
        assert_eq!(fitting::<String>(&[], 10), 0);
    }
}
