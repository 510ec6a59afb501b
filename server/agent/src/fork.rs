//! The part of a log that a fork begins with. Pure.

use protocol::event::{Record, SessionEvent};

/// The longest beginning of a log in which no turn is open, numbered from 0, closed by [`SessionEvent::EndSeed`] at the
/// time `now_ms`.
///
/// What followed the last turn (a mode, a title) belongs to it; a turn that runs does not, nor does the message so far
/// of any turn. Source: `spec/runtime.md` §2, fork.
pub fn seed(records: &[Record], now_ms: i64) -> Vec<Record> {
    let ends = records.iter().rposition(|record| matches!(record.event, SessionEvent::TurnEnd { .. }));
    let after = ends.map_or(0, |at| at + 1);
    let open =
        records[after..].iter().position(|record| matches!(record.event, SessionEvent::TurnStart { .. }));
    let settled = &records[..open.map_or(records.len(), |at| after + at)];
    let kept = settled.iter().filter(|record| !matches!(record.event, SessionEvent::AssistantPartial { .. }));
    let end = SessionEvent::EndSeed {};
    let mut seed: Vec<Record> = kept.cloned().collect();
    seed.push(Record { seq: 0, time: now_ms, ignorable: end.ignorable(), event: end });
    for (seq, record) in (0..).zip(&mut seed) {
        record.seq = seq;
    }
    seed
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::event::{TitleSource, TurnEndReason};
    use protocol::mode::Mode;

    fn events(records: &[Record]) -> Vec<SessionEvent> {
        records.iter().map(|record| record.event.clone()).collect()
    }

    fn log(events: &[SessionEvent]) -> Vec<Record> {
        // With a gap, as a record that could not be read leaves one.
        let seqs = [0].into_iter().chain(2..);
        events
            .iter()
            .zip(seqs)
            .map(|(event, seq)| Record { seq, time: 7, ignorable: event.ignorable(), event: event.clone() })
            .collect()
    }

    #[test]
    fn a_fork_begins_with_every_settled_turn_and_what_followed_it() {
        let start = |turn| SessionEvent::TurnStart { turn };
        let end = |turn| SessionEvent::TurnEnd { turn, reason: TurnEndReason::Completed };
        let preset = SessionEvent::PermissionPreset { preset: Mode::ReadOnly };
        let title = SessionEvent::Title { title: "t".to_owned(), source: TitleSource::User };
        let seal = SessionEvent::EndSeed {};
        let cases: [(&[SessionEvent], &[SessionEvent]); 5] = [
            (&[], std::slice::from_ref(&seal)),
            (&[preset.clone(), start(1)], &[preset.clone(), seal.clone()]),
            (&[start(1), end(1)], &[start(1), end(1), seal.clone()]),
            (&[start(1), end(1), title.clone()], &[start(1), end(1), title.clone(), seal.clone()]),
            (
                &[start(1), end(1), title.clone(), start(2), preset.clone()],
                &[start(1), end(1), title.clone(), seal.clone()],
            ),
        ];
        for (parent, expected) in cases {
            let seed = seed(&log(parent), 9);
            assert_eq!(events(&seed), expected);
            assert!(seed.iter().zip(0..).all(|(record, seq)| record.seq == seq));
            assert_eq!(seed.last().map(|record| record.time), Some(9));
        }
    }
}
