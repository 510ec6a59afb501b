//! Content blocks as the wire formats take them: text, or an image as base64.
//!
//! Called by both wire formats. Images are loaded before the request is written, so that writing it stays pure.

use crate::history_repair::Entry;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::content::{ContentBlock, ImageAttachment};
use protocol::id::AttachmentId;
use protocol::message::MessageSource;
use protocol::model::{HistoryMessage, ModelInfo};
use services::attachments::Attachments;
use services::model::{ModelError, ModelErrorKind};
use std::borrow::Cow;
use std::collections::HashMap;

/// A block as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    Text(Cow<'a, str>),
    Image { media_type: &'a str, base64: &'a str },
}

/// Images of a request by attachment; those that cannot be shown have a line that says why.
#[derive(Debug, Default)]
pub(crate) struct Images {
    takes_images: bool,
    loaded: HashMap<AttachmentId, Result<String, String>>,
}

impl Images {
    /// Loads what the entries show, when the model takes images.
    pub async fn load(entries: &[Entry<'_>], takes_images: bool, store: Option<&dyn Attachments>) -> Self {
        let mut images = Self { takes_images, loaded: HashMap::new() };
        if !takes_images {
            return images;
        }
        for image in entries.iter().flat_map(images_of) {
            if images.loaded.contains_key(&image.attachment_id) {
                continue;
            }
            let bytes = match store {
                Some(store) => store.load(&image.attachment_id).await.map_err(|error| error.to_string()),
                None => Err("there is no attachment store".to_owned()),
            };
            images.loaded.insert(image.attachment_id.clone(), bytes.map(|bytes| STANDARD.encode(bytes)));
        }
        images
    }

    /// The block as it is written.
    pub fn piece<'a>(&'a self, block: &'a ContentBlock) -> Piece<'a> {
        match block {
            ContentBlock::Text { text } => Piece::Text(Cow::Borrowed(text)),
            ContentBlock::ResourceLink { uri, name } => Piece::Text(Cow::Owned(link_text(uri, name))),
            ContentBlock::Resource { uri, text, .. } => Piece::Text(Cow::Owned(resource_text(uri, text))),
            ContentBlock::Image { attachment } => match self.loaded.get(&attachment.attachment_id) {
                Some(Ok(base64)) => Piece::Image { media_type: &attachment.media_type, base64 },
                Some(Err(reason)) => Piece::Text(Cow::Owned(left_out(attachment, reason))),
                None if self.takes_images => {
                    Piece::Text(Cow::Owned(left_out(attachment, "it was not loaded")))
                }
                None => Piece::Text(Cow::Owned(left_out(attachment, "this model takes no images"))),
            },
        }
    }
}

fn images_of<'e>(entry: &'e Entry<'_>) -> impl Iterator<Item = &'e ImageAttachment> {
    let blocks: Vec<&ContentBlock> = match entry {
        Entry::User(blocks) => blocks.iter().map(AsRef::as_ref).collect(),
        Entry::Assistant(exchange) => {
            exchange.results.iter().flat_map(|result| result.content.iter().map(AsRef::as_ref)).collect()
        }
    };
    blocks.into_iter().filter_map(|block| match block {
        ContentBlock::Image { attachment } => Some(attachment),
        _ => None,
    })
}

/// Refuses an image that the person sent just now to a model that cannot see it.
///
/// Older ones become a line of text, so that a session survives a change of model.
///
/// # Errors
/// `UnsupportedContent`, naming the model.
pub(crate) fn check_images(messages: &[HistoryMessage], info: &ModelInfo) -> Result<(), ModelError> {
    if info.takes_images == Some(true) {
        return Ok(());
    }
    let newest = messages.iter().rev().find_map(|message| match message {
        HistoryMessage::User(message) if message.source == MessageSource::User => Some(message),
        _ => None,
    });
    // Once the model has answered, the message was refused before or belongs to another model.
    let is_answered =
        matches!(messages.last(), Some(HistoryMessage::Assistant(_) | HistoryMessage::ToolResult(_)));
    let shows_image = newest.is_some_and(|message| {
        message.content.iter().any(|block| matches!(block, ContentBlock::Image { .. }))
    });
    if shows_image && !is_answered {
        let message = format!(
            "{} takes no images. Choose a model that does, or send the prompt without them.",
            info.id
        );
        return Err(ModelError {
            kind: ModelErrorKind::UnsupportedContent,
            message,
            status: None,
            retry_after: None,
        });
    }
    Ok(())
}

fn left_out(image: &ImageAttachment, reason: &str) -> String {
    let name = image.name.as_deref().unwrap_or("without a name");
    format!("[image {name}, {}x{}, left out: {reason}]", image.width, image.height)
}

fn link_text(uri: &str, name: &str) -> String {
    match place(uri) {
        Some(place) => format!("[the user points at {name}: {place}]"),
        None => format!("[the user points at {name}: {uri}]"),
    }
}

fn resource_text(uri: &str, text: &str) -> String {
    let place = place(uri).unwrap_or_else(|| uri.to_owned());
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("[from {place}]\n{fence}\n{text}{end}{fence}")
}

/// Path of a `file:` address, percent-decoded, without its fragment.
pub(crate) fn link_path(uri: &str) -> Option<String> {
    place(uri.split('#').next().unwrap_or(uri))
}

/// Path and lines of a `file:` address: percent-decoded, `#L3`, `#L3:9`, `#L3-9` and `#L3-L9` read as lines.
fn place(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let (path, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let path = percent_decode(path.strip_prefix("localhost").unwrap_or(path));
    // `file:///C:/x` names `C:/x`.
    let is_drive = matches!(path.as_bytes(), [b'/', letter, b':', ..] if letter.is_ascii_alphabetic());
    let path = if is_drive { &path[1..] } else { &path[..] };
    let lines = fragment.strip_prefix('L').map(|lines| lines.replace('L', "").replace(':', "-"));
    Some(match lines {
        Some(lines) if lines.starts_with(|char: char| char.is_ascii_digit()) => {
            let word = if lines.contains('-') { "lines" } else { "line" };
            format!("{path}, {word} {lines}")
        }
        _ if fragment.is_empty() => path.to_owned(),
        _ => format!("{path}#{fragment}"),
    })
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let decoded = (byte == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match decoded {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_resources_reach_the_model_with_path_and_lines() {
        let link = |uri: &str| ContentBlock::ResourceLink { uri: uri.to_owned(), name: "a b.rs".to_owned() };
        let cases = [
            (link("file:///src/a%20b.rs"), "[the user points at a b.rs: /src/a b.rs]"),
            (link("file:///src/a.rs#L3:9"), "[the user points at a b.rs: /src/a.rs, lines 3-9]"),
            (link("file:///src/a.rs#L3-L9"), "[the user points at a b.rs: /src/a.rs, lines 3-9]"),
            (link("file:///src/a.rs#L3"), "[the user points at a b.rs: /src/a.rs, line 3]"),
            (link("file:///C:/x.rs#top"), "[the user points at a b.rs: C:/x.rs#top]"),
            (link("https://x.example/%20"), "[the user points at a b.rs: https://x.example/%20]"),
            (
                ContentBlock::Resource {
                    uri: "file:///a.md".to_owned(),
                    mime_type: None,
                    text: "one\n```\ntwo".to_owned(),
                },
                "[from /a.md]\n````\none\n```\ntwo\n````",
            ),
        ];
        for (block, expected) in cases {
            assert_eq!(Images::default().piece(&block), Piece::Text(expected.into()));
        }
    }
}
