//! One tool of an MCP server, as one of ours.

use async_trait::async_trait;
use pipeline::context::ToolContext;
use pipeline::tool::{Effect, Tool};
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::{ContentBlock, ImageAttachment};
use protocol::id::MessageId;
use protocol::message::{ContextForm, MessageSource, UserMessage};
use protocol::schema;
use protocol::tool::{ToolFailure, ToolSchema};
use serde_json::{Map, Value, json};
use services::mcp_servers::{McpCall, McpContent, McpSession, McpToolInfo, PREFIX};
use std::sync::Arc;
use std::time::Duration;

/// Budget of a call. Source: `spec/runtime.md` §9.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One tool of a server.
pub struct McpTool {
    schema: ToolSchema,
    output: Value,
    server: String,
    info: McpToolInfo,
    session: Arc<dyn McpSession>,
}

impl McpTool {
    /// The tool `info` of `server`, called `name` by models.
    pub fn new(name: String, server: &str, info: McpToolInfo, session: Arc<dyn McpSession>) -> Self {
        let description = info.description.clone().or_else(|| info.title.clone()).unwrap_or_default();
        let description = match description.trim() {
            "" => format!("{} of the MCP server {server}", info.name),
            text => text.to_owned(),
        };
        let parameters = parameters(&info.input_schema);
        Self {
            schema: ToolSchema { name, description, parameters },
            output: json!({
                "type": "object",
                "properties": { "content": { "type": "array", "items": {} }, "structuredContent": {} },
                "required": ["content"],
                "additionalProperties": false
            }),
            server: server.to_owned(),
            info,
            session,
        }
    }

    /// A piece of content as JSON: what programs get, and what is rendered.
    async fn kept(&self, content: McpContent, ctx: &ToolContext) -> Value {
        let (bytes, mime_type) = match content {
            McpContent::Text(text) => return json!({ "type": "text", "text": text }),
            McpContent::Link { uri, name } => {
                return json!({ "type": "resource_link", "uri": uri, "name": name });
            }
            McpContent::Resource { uri, text } => {
                return json!({ "type": "resource", "uri": uri, "text": text });
            }
            McpContent::Other(what) => return missing(&what, "it cannot be shown here"),
            McpContent::Image { bytes, mime_type } => (bytes, mime_type),
        };
        let what = format!("an image ({mime_type}, {} bytes)", bytes.len());
        if !ctx.session.host.takes_images() {
            return missing(&what, "the current model is not known to take images");
        }
        match ctx.services().attachments.save(bytes, None).await {
            Ok(image) => json!({ "type": "image", "attachment": image }),
            Err(error) => missing(&what, &error.to_string()),
        }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn output_schema(&self) -> &Value {
        &self.output
    }

    fn timeout(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    fn is_concurrency_safe(&self, _arguments: &Value) -> bool {
        self.info.only_reads
    }

    fn effect(&self, _arguments: &Value) -> Effect {
        if self.info.only_reads { Effect::None } else { Effect::Unknown }
    }

    async fn execute(&self, arguments: &Value, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let call = McpCall {
            server: self.server.clone(),
            tool: self.info.name.clone(),
            arguments: arguments.as_object().cloned().unwrap_or_default(),
        };
        let result = self.session.call(call, &ctx.cancel).await?;
        let mut content = Vec::with_capacity(result.content.len());
        for piece in result.content {
            content.push(self.kept(piece, ctx).await);
        }
        let mut value = Map::new();
        value.insert("content".to_owned(), Value::Array(content));
        if let Some(structured) = result.structured {
            value.insert("structuredContent".to_owned(), structured);
        }
        let value = Value::Object(value);
        if result.is_error {
            return Err(failed(&self.schema.name, &value));
        }
        if ctx.execution.parent.is_some() {
            // A program sees the value only; images follow the outermost result.
            let images: Vec<_> = blocks(&value)
                .into_iter()
                .filter(|block| matches!(block, ContentBlock::Image { .. }))
                .collect();
            if !images.is_empty() {
                ctx.defer_context(UserMessage {
                    id: MessageId::new(ctx.services().clock.fresh_id()),
                    content: images,
                    source: MessageSource::Plugin {
                        plugin: self.schema.name.clone(),
                        form: ContextForm::Relay,
                    },
                });
            }
        }
        Ok(value)
    }

    fn render(&self, _arguments: &Value, value: &Value) -> Result<Vec<ContentBlock>, String> {
        Ok(blocks(value))
    }

    fn present_call(&self, arguments: &Value) -> Option<CallCard> {
        Some(card(&self.schema.name, arguments))
    }
}

/// A tool of a server that is not connected, for the cards of calls made when it was. Never registered.
pub struct AbsentTool {
    schema: ToolSchema,
    output: Value,
}

impl AbsentTool {
    /// Stands for the tool of this name.
    pub fn new(name: &str) -> Self {
        let parameters = json!({ "type": "object" });
        Self {
            schema: ToolSchema { name: name.to_owned(), description: String::new(), parameters },
            output: json!({}),
        }
    }
}

#[async_trait]
impl Tool for AbsentTool {
    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn output_schema(&self) -> &Value {
        &self.output
    }

    async fn execute(&self, _arguments: &Value, _ctx: &ToolContext) -> Result<Value, ToolFailure> {
        Err(ToolFailure::plain(format!("the MCP server of {} is not connected", self.schema.name)))
    }

    fn render(&self, _arguments: &Value, value: &Value) -> Result<Vec<ContentBlock>, String> {
        Ok(blocks(value))
    }

    fn present_call(&self, arguments: &Value) -> Option<CallCard> {
        Some(card(&self.schema.name, arguments))
    }
}

/// The card of a call, from its name and arguments alone: the same whether the server is there or not.
fn card(name: &str, arguments: &Value) -> CallCard {
    let plain = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once("__"));
    let title = plain.map_or_else(|| name.to_owned(), |(server, tool)| format!("{tool} ({server})"));
    CallCard::Generic(GenericCall {
        title,
        kind: ToolCallKind::Other,
        raw_input: Some(arguments.clone()),
        ..GenericCall::default()
    })
}

/// What models are told of a server's schema: the same, but always an object, as every provider demands.
fn parameters(input_schema: &Map<String, Value>) -> Value {
    let mut told = input_schema.clone();
    told.shift_remove("$schema");
    if told.get("type") != Some(&Value::from("object")) {
        told.insert("type".to_owned(), Value::from("object"));
    }
    if !told.get("properties").is_some_and(Value::is_object) {
        told.insert("properties".to_owned(), json!({}));
    }
    let told = Value::Object(told);
    // A number that no JSON text keeps would make the whole list of tools unusable.
    if schema::is_lossless(&told) { told } else { json!({ "type": "object", "properties": {} }) }
}

fn missing(what: &str, why: &str) -> Value {
    json!({ "type": "missing", "text": format!("[{what} is left out: {why}]") })
}

/// The failure a server reported, in its words.
fn failed(name: &str, value: &Value) -> ToolFailure {
    let is_silent =
        value["content"].as_array().is_none_or(Vec::is_empty) && value.get("structuredContent").is_none();
    let text: Vec<String> =
        blocks(value).iter().filter_map(ContentBlock::as_text).map(str::to_owned).collect();
    let text = text.join("\n");
    if is_silent || text.trim().is_empty() {
        return ToolFailure::plain(format!("{name} failed and did not say why"));
    }
    ToolFailure::plain(text)
}

/// The value as models read it: texts in a row become one.
fn blocks(value: &Value) -> Vec<ContentBlock> {
    let pieces = value["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut blocks: Vec<ContentBlock> = Vec::new();
    for piece in pieces {
        if let Ok(attachment) = serde_json::from_value::<ImageAttachment>(piece["attachment"].clone()) {
            blocks.push(ContentBlock::Image { attachment });
            continue;
        }
        let said = |field: &str| piece[field].as_str().unwrap_or_default().to_owned();
        let text = match piece["type"].as_str() {
            Some("resource_link") => format!("[{}]({})", said("name"), said("uri")),
            Some("resource") => format!("{}:\n{}", said("uri"), said("text")),
            _ => said("text"),
        };
        match blocks.last_mut() {
            Some(ContentBlock::Text { text: before }) => {
                before.push('\n');
                before.push_str(&text);
            }
            _ => blocks.push(ContentBlock::text(text)),
        }
    }
    if blocks.is_empty() {
        // Some servers answer with the value alone.
        let structured = value.get("structuredContent").map_or("(no output)".to_owned(), Value::to_string);
        blocks.push(ContentBlock::text(structured));
    }
    blocks
}
