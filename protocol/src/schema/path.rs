//! How a place inside a schema, a spec or a value is written in a message.
//!
//! Walkers keep one segment a frame and render only when there is something to report, so deep documents cost no
//! text while they are fine.

use std::fmt::Write;

/// One step from a node to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// The node itself: the root, or a branch that looks at the same value.
    Here,
    /// An entry of the `properties` of a schema node.
    Property(&'a str),
    /// An own key of an object value, of a parameter map, or a keyword of a node.
    Key(&'a str),
    /// The `items` of a schema node.
    Items,
    /// A branch of `oneOf`, 0-based.
    Branch(usize),
    /// An element of an array value, 0-based.
    Index(usize),
}

/// Writes `base` followed by `segments`. Below an empty base a key stands without a leading dot.
pub fn render<'a>(base: &str, segments: impl Iterator<Item = Segment<'a>>) -> String {
    let mut path = base.to_owned();
    for segment in segments {
        // Writing to a `String` cannot fail.
        let _ = match segment {
            Segment::Here => Ok(()),
            Segment::Property(key) => write!(path, ".properties.{key}"),
            Segment::Key(key) if path.is_empty() => write!(path, "{key}"),
            Segment::Key(key) => write!(path, ".{key}"),
            Segment::Items => write!(path, ".items"),
            Segment::Branch(branch_idx) => write!(path, ".oneOf[{branch_idx}]"),
            Segment::Index(item_idx) => write!(path, "[{item_idx}]"),
        };
    }
    path
}
