//! Servers of any state, and what becomes of their tools.

use super::*;
use pipeline::fake::FakeSession;
use pipeline::tool::Effect;
use protocol::card::{CallCard, GenericCall, ToolCallKind};
use protocol::content::ContentBlock;
use serde_json::{Map, Value, json};
use services::fake::{FakeMcp, World};
use services::mcp_servers::{McpCall, McpContent, McpResult};

fn info(name: &str) -> McpToolInfo {
    McpToolInfo {
        name: name.to_owned(),
        title: None,
        description: Some(format!("Does {name}.")),
        input_schema: object(
            json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 3 } } }),
        ),
        only_reads: false,
    }
}

fn ready(tools: &[McpToolInfo]) -> McpState {
    McpState::Ready { tools: Arc::new(tools.to_vec()) }
}

fn failed(reason: &str) -> McpState {
    McpState::Failed { reason: reason.to_owned() }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

/// A session's layer over fake servers.
struct Layer {
    mcp: Arc<FakeMcp>,
    registry: Registry,
    scope: pipeline::registry::Scope,
    tools: McpTools,
}

impl Layer {
    fn new() -> Self {
        let (mcp, registry) = (Arc::new(FakeMcp::default()), Registry::new());
        let scope = registry.open_scope(None);
        let disabled = vec!["mcp__a__off".to_owned()];
        let tools = McpTools::new(mcp.clone(), registry.clone(), scope.key(), disabled);
        Self { mcp, registry, scope, tools }
    }

    fn names(&self) -> Vec<String> {
        let tools = self.registry.definitions(Some(self.scope.key()), None);
        tools.iter().map(|tool| tool.schema().name.clone()).collect()
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.registry.get(name, Some(self.scope.key()), None).expect("the tool")
    }
}

#[tokio::test]
async fn tools_follow_the_servers_step_by_step() {
    let layer = Layer::new();
    layer.mcp.set("a", McpState::Connecting);
    assert_eq!(layer.tools.refresh().await, [""; 0]);
    assert_eq!(layer.names(), [""; 0]);

    layer.mcp.set("a", ready(&[info("x"), info("off"), info("y")]));
    layer.mcp.set("b", failed("it ended"));
    let told = "MCP server b is not connected, its tools are missing: it ended";
    assert_eq!(layer.tools.refresh().await, [told]);
    assert_eq!(layer.names(), ["mcp__a__x", "mcp__a__y"]);

    layer.mcp.set("a", ready(&[info("y"), info("z")]));
    assert_eq!(layer.tools.refresh().await, [""; 0], "a failure is told once");
    assert_eq!(layer.names(), ["mcp__a__y", "mcp__a__z"]);

    layer.mcp.set("a", failed("gone"));
    assert_eq!(layer.tools.refresh().await.len(), 1);
    assert_eq!(layer.names(), [""; 0]);
    assert_eq!(layer.mcp.waits(), [FIRST_WAIT], "only the first step waits");
}

#[tokio::test]
async fn a_conflict_rolls_the_whole_list_back() {
    let layer = Layer::new();
    layer.mcp.set("a", ready(&[info("b__c")]));
    layer.mcp.set("a__b", ready(&[info("d"), info("c")]));
    let told = layer.tools.refresh().await;
    assert_eq!(
        told,
        ["The tools of MCP server a__b are missing: tool mcp__a__b__c is registered already in this scope"]
    );
    assert_eq!(layer.names(), ["mcp__a__b__c"]);
    assert_eq!(layer.tools.refresh().await, [""; 0]);
}

#[tokio::test]
async fn a_schema_outside_the_subset_is_kept() {
    let layer = Layer::new();
    let mut odd = info("odd");
    odd.input_schema =
        object(json!({ "$schema": "http://json-schema.org/draft-07/schema#", "anyOf": [true] }));
    let mut reads = info("reads");
    reads.only_reads = true;
    layer.mcp.set("a", ready(&[info("x"), odd, reads]));
    layer.tools.refresh().await;
    let schemas = layer.registry.schemas(Some(layer.scope.key()), None).expect("schemas");
    let parameters: Vec<Value> = schemas.iter().map(|schema| schema.parameters.clone()).collect();
    let kept = json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 3 } } });
    let odd = json!({ "anyOf": [true], "type": "object", "properties": {} });
    assert_eq!(parameters, [kept.clone(), odd, kept]);
    let effects = ["mcp__a__x", "mcp__a__reads"].map(|name| layer.tool(name).effect(&json!({})));
    assert_eq!(effects, [Effect::Unknown, Effect::None]);
    let card = CallCard::Generic(GenericCall {
        title: "reads (a)".to_owned(),
        kind: ToolCallKind::Other,
        raw_input: Some(json!({ "n": 1 })),
        ..GenericCall::default()
    });
    let absent = absent_tool("mcp__a__reads").expect("a name of a server's tool");
    for tool in [layer.tool("mcp__a__reads"), absent] {
        assert_eq!(
            tool.present_call(&json!({ "n": 1 })),
            Some(card.clone()),
            "the same with and without the server"
        );
    }
    assert!(absent_tool("read").is_none());
}

#[tokio::test]
async fn results_become_content_that_models_read() {
    let png = || vec![0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a];
    let image = || McpContent::Image { bytes: png(), mime_type: "image/png".to_owned() };
    let result = McpResult {
        content: vec![
            McpContent::Text("one".to_owned()),
            McpContent::Text("two".to_owned()),
            McpContent::Link { uri: "file:///a".to_owned(), name: "a".to_owned() },
            image(),
            McpContent::Resource { uri: "mem:b".to_owned(), text: "B".to_owned() },
            McpContent::Other("audio (audio/wav)".to_owned()),
        ],
        ..McpResult::default()
    };
    let head = "one\ntwo\n[a](file:///a)";
    let tail = "mem:b:\nB\n[audio (audio/wav) is left out: it cannot be shown here]";
    for takes_images in [false, true] {
        let layer = Layer::new();
        layer.mcp.set("a", ready(&[info("x")]));
        layer.tools.refresh().await;
        layer.mcp.answer(Ok(result.clone()));
        let session = FakeSession::new(World::new());
        session.host.set_takes_images(takes_images);
        let (tool, arguments) = (layer.tool("mcp__a__x"), json!({ "n": 4 }));
        let ctx = session.context("mcp__a__x", arguments.clone());
        let value = tool.execute(&arguments, &ctx).await.expect("a value");
        assert_eq!(protocol::schema::validate(tool.output_schema(), &value, ""), [""; 0]);
        let blocks = tool.render(&arguments, &value).expect("content");
        match (takes_images, blocks.as_slice()) {
            (true, [before, ContentBlock::Image { .. }, after]) => {
                assert_eq!((before.as_text(), after.as_text()), (Some(head), Some(tail)));
            }
            (false, [only]) => {
                let note = "[an image (image/png, 8 bytes) is left out: the current model is not known to take images]";
                assert_eq!(only.as_text(), Some(format!("{head}\n{note}\n{tail}").as_str()));
            }
            other => panic!("{other:?}"),
        }
        let call = McpCall { server: "a".to_owned(), tool: "x".to_owned(), arguments: object(arguments) };
        assert_eq!(layer.mcp.called(), [call]);
    }
}

#[tokio::test]
async fn a_failure_and_a_bare_value_are_said_in_the_servers_words() {
    let text = |text: &str| vec![McpContent::Text(text.to_owned())];
    let cases = [
        (
            McpResult { content: text("no such row"), is_error: true, ..McpResult::default() },
            Err("no such row"),
        ),
        (McpResult { is_error: true, ..McpResult::default() }, Err("mcp__a__x failed and did not say why")),
        (McpResult { structured: Some(json!({ "n": 1 })), ..McpResult::default() }, Ok(r#"{"n":1}"#)),
        (McpResult::default(), Ok("(no output)")),
    ];
    for (result, expected) in cases {
        let layer = Layer::new();
        layer.mcp.set("a", ready(&[info("x")]));
        layer.tools.refresh().await;
        layer.mcp.answer(Ok(result));
        let session = FakeSession::new(World::new());
        let tool = layer.tool("mcp__a__x");
        let ended = tool.execute(&json!({}), &session.context("mcp__a__x", json!({}))).await;
        let said = match &ended {
            Ok(value) => Ok(tool.render(&json!({}), value).expect("content")),
            Err(failure) => Err(failure.message.as_str()),
        };
        let said = said.as_ref().map(|blocks| blocks[0].as_text().expect("text")).map_err(|text| *text);
        assert_eq!(said, expected);
    }
}
