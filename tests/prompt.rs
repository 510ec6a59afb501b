//! Prompts: what reaches the model, what the user is told, and in which order.

use crate::kit::*;

#[test]
fn an_answer_streams_and_ends_the_turn() {
    let stage = scenario().model(says("Hello.")).prompt("hi");
    insta::assert_snapshot!(stage.transcript(), @r"
    > hi
    < Hello.
    = end_turn
    ");
}
