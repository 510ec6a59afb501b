//! What a server answers, as the service says it.

use base64::Engine;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, Tool};
use services::mcp_servers::{McpContent, McpResult, McpToolInfo};

/// A tool of a server.
pub fn tool_info(tool: &Tool) -> McpToolInfo {
    let annotations = tool.annotations.as_ref();
    let title = tool.title.clone().or_else(|| annotations.and_then(|annotations| annotations.title.clone()));
    McpToolInfo {
        name: tool.name.clone().into_owned(),
        title,
        description: tool.description.clone().map(|description| description.into_owned()),
        input_schema: (*tool.input_schema).clone(),
        only_reads: annotations.and_then(|annotations| annotations.read_only_hint) == Some(true),
    }
}

/// The result of a call.
pub fn result(result: CallToolResult) -> McpResult {
    McpResult {
        content: result.content.into_iter().map(content).collect(),
        structured: result.structured_content,
        is_error: result.is_error == Some(true),
    }
}

fn content(block: ContentBlock) -> McpContent {
    match block {
        ContentBlock::Text(text) => McpContent::Text(text.text),
        ContentBlock::Image(image) => match base64::engine::general_purpose::STANDARD.decode(&image.data) {
            Ok(bytes) => McpContent::Image { bytes, mime_type: image.mime_type },
            Err(_) => McpContent::Other(format!("an image ({}) whose data is broken", image.mime_type)),
        },
        ContentBlock::Audio(audio) => McpContent::Other(format!("audio ({})", audio.mime_type)),
        ContentBlock::ResourceLink(link) => McpContent::Link { uri: link.uri, name: link.name },
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => McpContent::Resource { uri, text },
            ResourceContents::BlobResourceContents { uri, mime_type, .. } => McpContent::Other(format!(
                "data of {uri} ({})",
                mime_type.as_deref().unwrap_or("of unknown type")
            )),
            _ => McpContent::Other("a resource of an unknown kind".to_owned()),
        },
        _ => McpContent::Other("content of an unknown kind".to_owned()),
    }
}
