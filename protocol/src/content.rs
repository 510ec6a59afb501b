//! Content blocks: the unit of what models and people read.

use crate::id::AttachmentId;
use serde::{Deserialize, Serialize};

/// One block of a user message or of a tool result.
///
/// Policies that understand only text skip a result that holds any other kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ContentBlock {
    /// Plain text, or Markdown where a person reads it.
    Text {
        /// The text, as it was said.
        text: String,
    },
    /// A stored image.
    Image {
        /// Where its bytes are and what they are.
        attachment: ImageAttachment,
    },
    /// A reference to a resource the user pointed at, without its content.
    #[serde(rename_all = "camelCase")]
    ResourceLink {
        /// Address of the resource, as the client sent it (`file:///…#L3:9` for a selection).
        uri: String,
        /// Name to show.
        name: String,
    },
    /// A resource whose text the client embedded.
    #[serde(rename_all = "camelCase")]
    Resource {
        /// Address of the resource, as the client sent it.
        uri: String,
        /// MIME type; `None` when the client did not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// The whole embedded text.
        text: String,
    },
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The text of a text block; `None` for every other kind.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

/// A reference to a stored image. The bytes are in the attachment store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageAttachment {
    /// Key of the bytes in the attachment store.
    pub attachment_id: AttachmentId,
    /// `image/png`, `image/jpeg`, `image/webp` or `image/gif`, verified against the bytes.
    pub media_type: String,
    /// Size of the stored bytes.
    pub bytes: u64,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// File name to show; `None` when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Size before it was scaled down; `None` when it was stored unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_dimensions: Option<Dimensions>,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimensions {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}
