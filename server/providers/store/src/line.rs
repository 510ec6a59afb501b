//! One line of a log: how it is written, how it is parsed fast, and what is wrong with one that cannot be.
//!
//! Used by [`crate::read`], [`crate::log`] and [`crate::summary`]; does no I/O.

use protocol::event::{Record, SessionEvent, SessionHeader};
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Longest record that is written, in bytes. Full texts belong into blobs and spills.
pub(crate) const MAX_RECORD_BYTES: usize = 8 * 1024 * 1024;

/// What a line turned out to be.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    /// A record.
    Record(Box<Record>),
    /// Nothing but white space.
    Blank,
    /// A record of an unknown type that says it may be skipped.
    Skipped,
    /// A whole record of an unknown type that must not be skipped; its type.
    Unknown(String),
    /// Not a record.
    Bad,
}

/// Parses a line after the header, with or without its line end.
pub(crate) fn parse(bytes: &[u8]) -> Line {
    if let Ok(InOrder(record)) = serde_json::from_slice(bytes) {
        return Line::Record(Box::new(record));
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Line::Blank;
    }
    // Slow and thorough: keys in another order, escapes in the type.
    if let Ok(record) = serde_json::from_slice::<Record>(bytes) {
        return Line::Record(Box::new(record));
    }
    match serde_json::from_slice::<Envelope>(bytes) {
        Ok(envelope) if is_known(&envelope.kind) => Line::Bad,
        Ok(Envelope { ignorable: true, .. }) => Line::Skipped,
        Ok(envelope) => Line::Unknown(envelope.kind),
        Err(_) => Line::Bad,
    }
}

/// A record as a whole line, line end included.
pub(crate) fn of_record(record: &Record) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(256);
    serde_json::to_writer(&mut line, record)?;
    line.push(b'\n');
    Ok(line)
}

/// The header as a whole line, line end included.
pub(crate) fn of_header(header: &SessionHeader) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct HeaderLine<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(flatten)]
        header: &'a SessionHeader,
    }
    let mut line = serde_json::to_vec(&HeaderLine { kind: "session", header })?;
    line.push(b'\n');
    Ok(line)
}

/// What every record has, whatever its type.
#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    ignorable: bool,
}

/// Whether this version knows the event type. Asks the event itself, so that no second list has to be kept.
fn is_known(kind: &str) -> bool {
    let probe = serde_json::json!({ "type": kind, "data": null });
    match SessionEvent::deserialize(probe) {
        Ok(_) => true,
        Err(error) => !error.to_string().starts_with("unknown variant"),
    }
}

/// A record whose `type` comes before its `data`, as we write it. Parsed in one pass: the derived parser has to buffer
/// the whole data first, since it cannot rely on that order.
struct InOrder(Record);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    Seq,
    Time,
    Ignorable,
    Type,
    Data,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RecordVisitor)
    }
}

struct RecordVisitor;

impl<'de> Visitor<'de> for RecordVisitor {
    type Value = InOrder;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<InOrder, M::Error> {
        let (mut seq, mut time, mut ignorable, mut kind, mut event) = (None, None, false, None, None);
        while let Some(key) = map.next_key()? {
            match key {
                Key::Seq => seq = Some(map.next_value()?),
                Key::Time => time = Some(map.next_value()?),
                Key::Ignorable => ignorable = map.next_value()?,
                Key::Type => kind = Some(map.next_value::<&'de str>()?),
                Key::Data => {
                    let kind = kind.ok_or_else(|| M::Error::custom("data before type"))?;
                    event = Some(map.next_value_seed(EventOf { kind })?);
                }
                Key::Other => {
                    map.next_value::<serde::de::IgnoredAny>()?;
                }
            }
        }
        Ok(InOrder(Record {
            seq: seq.ok_or_else(|| M::Error::missing_field("seq"))?,
            time: time.ok_or_else(|| M::Error::missing_field("time"))?,
            ignorable,
            event: event.ok_or_else(|| M::Error::missing_field("data"))?,
        }))
    }
}

/// Reads the data of an event whose type is known already.
struct EventOf<'de> {
    kind: &'de str,
}

impl<'de> DeserializeSeed<'de> for EventOf<'de> {
    type Value = SessionEvent;

    fn deserialize<D: Deserializer<'de>>(self, data: D) -> Result<SessionEvent, D::Error> {
        let pair = TypeThenData { kind: self.kind, data: Some(data), n_keys: 0 };
        SessionEvent::deserialize(MapAccessDeserializer::new(pair))
    }
}

/// The map `{type, data}` that the event's own parser wants, its data still unread.
struct TypeThenData<'de, D> {
    kind: &'de str,
    data: Option<D>,
    n_keys: u8,
}

impl<'de, D: Deserializer<'de>> MapAccess<'de> for TypeThenData<'de, D> {
    type Error = D::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, D::Error> {
        self.n_keys += 1;
        match self.n_keys {
            1 => seed.deserialize(BorrowedStrDeserializer::new("type")).map(Some),
            2 => seed.deserialize(BorrowedStrDeserializer::new("data")).map(Some),
            _ => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, D::Error> {
        if self.n_keys == 1 {
            return seed.deserialize(BorrowedStrDeserializer::new(self.kind));
        }
        match self.data.take() {
            Some(data) => seed.deserialize(data),
            None => Err(D::Error::custom("value asked for twice")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::samples;

    #[test]
    fn every_sample_event_survives_its_line() {
        for record in samples::one_of_each() {
            let line = of_record(&record).unwrap();
            let InOrder(fast) = serde_json::from_slice(&line).unwrap();
            assert_eq!(fast, record);
            assert_eq!(parse(&line), Line::Record(Box::new(record)));
        }
    }

    #[test]
    fn keys_in_another_order_are_understood() {
        let line = br#"{"data":{"turn":3},"type":"turn\/start","extra":1,"time":5,"seq":0}"#;
        let record = Record { seq: 0, time: 5, ignorable: false, event: SessionEvent::TurnStart { turn: 3 } };
        assert_eq!(parse(line), Line::Record(Box::new(record)));
    }

    #[test]
    fn lines_that_are_no_records_are_told_apart() {
        let cases: [(&[u8], Line); 9] = [
            (b"", Line::Blank),
            (b" \r\n", Line::Blank),
            (b"{\"seq\":1,\"time\":", Line::Bad),
            (b"\0\0\0\0", Line::Bad),
            (b"{\"seq\":1,\"time\":2,\"type\":\"turn/start\",\"data\":{}}", Line::Bad),
            (b"{\"seq\":1,\"time\":2,\"type\":\"turn/start\",\"data\":{\"turn\":1}}}", Line::Bad),
            (b"{\"seq\":1,\"time\":2,\"type\":\"x/y\",\"data\":{}}", Line::Unknown("x/y".to_owned())),
            (b"{\"seq\":1,\"time\":2,\"ignorable\":true,\"type\":\"x/y\",\"data\":{}}", Line::Skipped),
            (b"[\xff]", Line::Bad),
        ];
        for (bytes, line) in cases {
            assert_eq!(parse(bytes), line, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
