//! The JSON of every card for a full and a bare client, and for the two kinds of client in between.
//!
//! Each snapshot holds one call: announced, completed as on replay, and failed instead.

use crate::fixtures::{bare, display, every_card, full, quirky};
use crate::{PresentContext, fixtures::Case};
use serde_json::{Value, json};

fn picture(ctx: &PresentContext, case: &Case) -> Value {
    json!({ "pending": case.pending(ctx), "completed": case.completed(ctx), "failed": case.failed(ctx) })
}

fn check(client: &str, ctx: &PresentContext, wanted: impl Fn(&str) -> bool) {
    for (name, case) in every_card() {
        if wanted(name) {
            insta::assert_json_snapshot!(format!("{name}_{client}"), picture(ctx, &case));
        }
    }
}

#[test]
fn every_card_for_a_full_client() {
    check("full", &full(), |_| true);
}

#[test]
fn every_card_for_a_bare_client() {
    check("bare", &bare(), |_| true);
}

#[test]
fn commands_for_a_client_that_displays_terminals() {
    check("display", &display(), |name| name == "terminal");
}

#[test]
fn titles_and_places_for_a_client_with_quirks() {
    let titles = every_card().into_iter().map(|(name, case)| {
        let pending = case.pending(&quirky());
        let completed = case.completed(&quirky());
        (name.to_owned(), json!([pending["title"], pending["locations"], completed["locations"]]))
    });
    insta::assert_json_snapshot!("titles_quirky", Value::Object(titles.collect()));
}
