//! The generic card, and content blocks wherever they come from.

use super::{Completed, text_item};
use crate::PresentContext;
use crate::text::{cut_bytes, fence};
use agent_client_protocol::v1::schema::{
    ContentBlock as WireBlock, EmbeddedResource, EmbeddedResourceResource, ImageContent, ResourceLink,
    TextContent, TextResourceContents, ToolCallContent,
};
use protocol::content::{ContentBlock, ImageAttachment};
use protocol::tool::DurableResult;
use serde_json::{Value, json};

/// Most text repeated in `rawOutput`, in bytes; the content has it whole.
const MAX_RAW_TEXT: usize = 16 * 1024;

/// Content blocks as items of a call.
pub(crate) fn blocks(ctx: &PresentContext, blocks: &[ContentBlock]) -> Vec<ToolCallContent> {
    blocks.iter().map(|block| ToolCallContent::from(wire_block(ctx, block))).collect()
}

/// One content block on the wire. An image whose bytes were not handed in is named in words.
pub(crate) fn wire_block(ctx: &PresentContext, block: &ContentBlock) -> WireBlock {
    match block {
        ContentBlock::Text { text } => WireBlock::Text(TextContent::new(text.as_str())),
        ContentBlock::Image { attachment } => match ctx.images.get(&attachment.attachment_id) {
            Some(data) => WireBlock::Image(ImageContent::new(data.as_str(), attachment.media_type.as_str())),
            None => WireBlock::Text(TextContent::new(image_in_words(attachment))),
        },
        ContentBlock::ResourceLink { uri, name } => {
            WireBlock::ResourceLink(ResourceLink::new(name.as_str(), uri.as_str()))
        }
        ContentBlock::Resource { uri, mime_type, text } => {
            let contents =
                TextResourceContents::new(text.as_str(), uri.as_str()).mime_type(mime_type.clone());
            WireBlock::Resource(EmbeddedResource::new(EmbeddedResourceResource::TextResourceContents(
                contents,
            )))
        }
    }
}

fn image_in_words(image: &ImageAttachment) -> String {
    let name = image.name.as_deref().unwrap_or("image");
    format!("[{name}: {}, {}×{}, {} bytes]", image.media_type, image.width, image.height, image.bytes)
}

/// A result shown by its content: the card's own, or what the model read.
pub(crate) fn completed(
    ctx: &PresentContext,
    content: Option<&[ContentBlock]>,
    result: &DurableResult,
) -> Completed {
    Completed {
        content: Some(blocks(ctx, content.unwrap_or(&result.content))),
        raw_output: Some(raw_text(&result_text(result))),
        ..Completed::default()
    }
}

/// The output of a command that the client has no terminal for: what the model read, in a `console` fence.
pub(crate) fn console(result: &DurableResult) -> Completed {
    let text = result_text(result);
    Completed {
        content: Some(vec![text_item(fence("console", &text))]),
        raw_output: Some(raw_text(&text)),
        ..Completed::default()
    }
}

/// The texts of a result, one block after another.
pub(crate) fn result_text(result: &DurableResult) -> String {
    let texts: Vec<&str> = result.content.iter().filter_map(ContentBlock::as_text).collect();
    texts.join("\n")
}

/// A text as raw output, bounded; a cut one says so.
pub(crate) fn raw_text(text: &str) -> Value {
    let kept = cut_bytes(text, MAX_RAW_TEXT);
    if kept.len() == text.len() {
        json!({ "text": text })
    } else {
        json!({ "text": kept, "omittedBytes": text.len() - kept.len() })
    }
}
