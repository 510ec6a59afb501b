//! Prompts of the client → content blocks of ours.

use super::error::invalid_params;
use agent::session::PromptContent;
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ContentBlock as WireBlock, EmbeddedResourceResource};
use base64::Engine;
use futures::FutureExt;
use protocol::content::ContentBlock;
use services::attachments::Attachments;
use std::sync::Arc;

/// A block that is ready, or an image that is still to be stored.
enum Prepared {
    Ready(ContentBlock),
    Image { bytes: Vec<u8>, name: Option<String> },
}

/// Checks a prompt at once and makes its content ready when its turn comes.
///
/// # Errors
/// -32602 naming the block, for content this session's model does not take.
pub fn from_acp(
    blocks: Vec<WireBlock>,
    takes_images: bool,
    model: &str,
    attachments: Arc<dyn Attachments>,
) -> Result<PromptContent, Error> {
    if blocks.is_empty() {
        return Err(invalid_params("prompt", "the prompt is empty"));
    }
    let mut prepared = Vec::with_capacity(blocks.len());
    for (idx, block) in blocks.into_iter().enumerate() {
        prepared.push(
            prepare(block, takes_images, model)
                .map_err(|reason| invalid_params(&format!("prompt[{idx}]"), &reason))?,
        );
    }
    Ok(async move {
        let mut content = Vec::with_capacity(prepared.len());
        for block in prepared {
            content.push(match block {
                Prepared::Ready(block) => block,
                Prepared::Image { bytes, name } => {
                    let attachment =
                        attachments.save(bytes, name).await.map_err(|error| error.to_string())?;
                    ContentBlock::Image { attachment }
                }
            });
        }
        Ok(content)
    }
    .boxed())
}

fn prepare(block: WireBlock, takes_images: bool, model: &str) -> Result<Prepared, String> {
    Ok(Prepared::Ready(match block {
        WireBlock::Text(text) => ContentBlock::text(text.text),
        WireBlock::ResourceLink(link) => ContentBlock::ResourceLink { uri: link.uri, name: link.name },
        WireBlock::Resource(resource) => match resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => {
                ContentBlock::Resource { uri: text.uri, mime_type: text.mime_type, text: text.text }
            }
            EmbeddedResourceResource::BlobResourceContents(blob) => {
                if !blob.mime_type.as_deref().is_some_and(|kind| kind.starts_with("image/")) {
                    return Err(format!("{} is binary; only text and images can be embedded", blob.uri));
                }
                return image(&blob.blob, name_of(&blob.uri), takes_images, model);
            }
            _ => return Err("this kind of embedded resource is not supported".to_owned()),
        },
        WireBlock::Image(content) => {
            let name = content.uri.as_deref().and_then(name_of);
            return image(&content.data, name, takes_images, model);
        }
        WireBlock::Audio(_) => return Err("audio is not supported".to_owned()),
        _ => return Err("this kind of content is not supported".to_owned()),
    }))
}

fn image(data: &str, name: Option<String>, takes_images: bool, model: &str) -> Result<Prepared, String> {
    if !takes_images {
        return Err(format!(
            "{model} does not take images; choose a model that does, or leave the image out"
        ));
    }
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(data)
        .map_err(|error| format!("the image is not valid base64: {error}"))?;
    Ok(Prepared::Image { bytes, name })
}

fn name_of(uri: &str) -> Option<String> {
    let name = uri.rsplit('/').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}
