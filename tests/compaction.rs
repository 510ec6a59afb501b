//! Compaction in the built program: what the model reads changes, what the user sees does not (S02, S13).

use crate::kit::*;

/// S02: the conversation is told again whole, and the model goes on from the summary.
#[test]
fn compact_shortens_what_the_model_reads_and_nothing_of_what_the_user_sees() {
    let long = "word ".repeat(2000);
    let stage = scenario().model(says(&long)).model(says("Summary of it.")).model(says("Going on.")).start();
    stage.prompt("first question");
    assert_eq!(stage.prompt("/compact the names"), "end_turn");
    assert!(stage.said().contains("replaced by a summary"), "{}", stage.said());
    stage.prompt("second question");
    let requests = stage.model().requests();
    assert_eq!(requests.len(), 3);
    let asked = requests[1].to_string();
    assert!(asked.contains("the names") && asked.contains(&long), "{asked}");
    let last = requests[2].to_string();
    assert!(last.contains("Summary of it.") && last.contains("second question"), "{last}");
    assert!(!last.contains(&long), "{last}");
}
