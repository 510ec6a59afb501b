//! Many agents for one task: by a script that starts them, or in rounds until an objective is reached.

mod progress;
pub mod ralph;
mod run;
pub mod script;
#[cfg(test)]
#[path = "tests.rs"]
mod scripts;

use crate::listed;
use pipeline::tool::Tool;
use std::sync::Arc;

/// The tools of the family.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    vec![listed(script::Workflow), listed(ralph::Ralph)]
}

/// A text with at most so many characters; of a longer one the beginning, and how much is missing.
fn cut(text: String, max_chars: usize) -> String {
    let n_chars = text.chars().count();
    if n_chars <= max_chars {
        return text;
    }
    // The number in the marker only gets smaller.
    let marker = |n_cut: usize| format!("\n[cut: {n_cut} more characters]");
    let room = max_chars.saturating_sub(marker(n_chars).chars().count());
    let kept: String = text.chars().take(room).collect();
    kept.chars().chain(marker(n_chars - room).chars()).take(max_chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_says_so_and_stays_within_its_bound() {
        assert_eq!(cut("äbc".to_owned(), 3), "äbc");
        let text = cut("ä".repeat(200), 100);
        assert_eq!(text, format!("{}\n[cut: 127 more characters]", "ä".repeat(73)));
        assert_eq!(cut("x".repeat(200), 8), "\n[cut: 2");
    }
}
