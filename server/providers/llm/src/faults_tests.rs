//! The whole road over loopback: what a provider does wrong, and what the agent gets of it.

use crate::scripted::{Fault, Gate, Reply, ScriptedModel, calls, fails, says, thinks};
use crate::{Credentials, LlmConfig, LlmModels};
use futures::StreamExt as _;
use protocol::content::{ContentBlock, ImageAttachment};
use protocol::id::{AttachmentId, MessageId};
use protocol::message::{MessageSource, UserMessage};
use protocol::model::{FinishReason, HistoryMessage, ModelChunk, ModelRef, ModelRequest, Usage};
use protocol::tool::ToolSchema;
use serde_json::json;
use services::attachments::{AttachmentError, Attachments};
use services::model::{ModelError, ModelErrorKind, Models};
use std::sync::Arc;
use std::time::{Duration, Instant};

const IDLE: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(10);

fn models(variables: Vec<(&'static str, String)>, idle_timeout: Duration) -> LlmModels {
    let credentials = Credentials::with_variables(None, move |name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    });
    LlmModels::new(LlmConfig { idle_timeout, ..LlmConfig::default() }, credentials, None)
}

fn request(model: &str) -> ModelRequest {
    ModelRequest {
        model: ModelRef::parse(model).unwrap(),
        effort: None,
        system: "Be brief.".to_owned(),
        messages: vec![HistoryMessage::User(UserMessage {
            id: MessageId::new("m1"),
            content: vec![ContentBlock::text("hi")],
            source: MessageSource::User,
        })],
        tools: vec![ToolSchema {
            name: "read".to_owned(),
            description: "Reads.".to_owned(),
            parameters: json!({"type": "object"}),
        }],
        max_tokens: None,
        cwd: "/w".into(),
    }
}

/// Chunks with neighbouring texts joined, and the error that ended them.
async fn ask(models: &LlmModels, request: ModelRequest) -> (Vec<ModelChunk>, Option<ModelError>) {
    let mut stream = match models.stream(request).await {
        Ok(stream) => stream,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut chunks: Vec<ModelChunk> = Vec::new();
    while let Some(item) = stream.next().await {
        match (item, chunks.last_mut()) {
            (Ok(ModelChunk::Text(more)), Some(ModelChunk::Text(text))) => text.push_str(&more),
            (Ok(chunk), _) => chunks.push(chunk),
            (Err(error), _) => return (chunks, Some(error)),
        }
    }
    (chunks, None)
}

/// Asks both wire formats for the same reply.
async fn ask_both(reply: Reply, idle: Duration) -> Vec<(Vec<ModelChunk>, Option<ModelError>)> {
    let (base_url, _model) = ScriptedModel::start(vec![reply.repeated()]).unwrap();
    let variables = vec![("OPENAI_BASE_URL", base_url.clone()), ("ANTHROPIC_BASE_URL", base_url)];
    let models = models(variables, idle);
    let mut answers = Vec::new();
    for model in ["openai/some-model", "anthropic/some-model"] {
        answers.push(ask(&models, request(model)).await);
    }
    answers
}

fn text(text: &str) -> ModelChunk {
    ModelChunk::Text(text.to_owned())
}

fn call(id: &str, name: &str, arguments: &str) -> ModelChunk {
    ModelChunk::ToolCall {
        index: 0,
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

#[tokio::test]
async fn both_formats_carry_reasoning_text_calls_and_usage() {
    let reply =
        thinks("hm").says("Hel").says("lo").calls("read", json!({"a": "é"})).usage_with_cache(100, 7, 60);
    let (base_url, model) = ScriptedModel::start(vec![reply.clone(), reply]).unwrap();
    let models = models(
        vec![
            ("OPENAI_BASE_URL", base_url.clone()),
            ("OPENAI_API_KEY", "sk-openai".to_owned()),
            ("ANTHROPIC_BASE_URL", base_url),
            ("ANTHROPIC_API_KEY", "sk-anthropic".to_owned()),
        ],
        LONG,
    );
    let usage = ModelChunk::Usage(Usage {
        input_tokens: 40,
        output_tokens: 7,
        cache_read_tokens: 60,
        ..Usage::default()
    });
    for (number, (name, replay)) in [
        ("openai/some-model", json!({"field": "reasoning_content"})),
        ("anthropic/some-model", json!({"type": "thinking", "signature": "scripted-signature"})),
    ]
    .into_iter()
    .enumerate()
    {
        let expected = vec![
            ModelChunk::Reasoning("hm".to_owned()),
            ModelChunk::ReasoningReplay(replay),
            text("Hello"),
            call(&format!("scripted_{}", number + 1), "read", ""),
            call("", "", r#"{"a":"#),
            call("", "", r#""é"}"#),
            usage.clone(),
            ModelChunk::Finish(FinishReason::ToolCalls),
        ];
        let (chunks, error) = ask(&models, request(name)).await;
        assert_eq!((chunks, error), (expected, None), "{name}");
    }
    let received = model.received();
    let header = |index: usize, name: &str| received[index].headers.get(name).map(String::as_str);
    assert_eq!(received[0].path, "/v1/chat/completions");
    assert_eq!(header(0, "authorization"), Some("Bearer sk-openai"));
    assert_eq!(header(0, "user-agent"), Some(concat!("followspot/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(received[1].path, "/v1/messages");
    assert_eq!(header(1, "x-api-key"), Some("sk-anthropic"));
    assert_eq!(header(1, "authorization"), None);
    assert_eq!(
        received[0].body,
        json!({
            "model": "some-model",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}}],
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[tokio::test]
async fn a_silent_provider_is_given_up_after_the_idle_budget() {
    for fault in [Fault::Silence, Fault::KeepAliveOnly] {
        let started = Instant::now();
        for (chunks, error) in ask_both(says("first").fault(fault.clone()), IDLE).await {
            let error = error.unwrap();
            assert_eq!((chunks, error.kind), (vec![text("first")], ModelErrorKind::Timeout), "{fault:?}");
            assert!(error.message.ends_with("sent nothing for 150ms."), "{}", error.message);
        }
        assert!(started.elapsed() < IDLE * 2 + Duration::from_secs(2));
    }
}

#[tokio::test]
async fn a_provider_that_never_answers_is_given_up_too() {
    let gate = Gate::new();
    for (chunks, error) in ask_both(fails(500, "{}").hold(&gate), IDLE).await {
        assert_eq!((chunks, error.unwrap().kind), (vec![], ModelErrorKind::Timeout));
    }
}

#[tokio::test]
async fn broken_streams_keep_what_came_and_end_in_a_transport_error() {
    for fault in [Fault::CutInEvent, Fault::CutInCharacter, Fault::NoFinish] {
        for (chunks, error) in ask_both(says("first").fault(fault.clone()), LONG).await {
            let error = error.unwrap();
            assert_eq!((chunks, error.kind), (vec![text("first")], ModelErrorKind::Transport), "{fault:?}");
            assert!(error.message.contains("broke off its answer"), "{}", error.message);
        }
    }
    for (chunks, error) in ask_both(says("x").fault(Fault::NoAnswer), LONG).await {
        assert_eq!((chunks, error.unwrap().kind), (vec![], ModelErrorKind::Transport));
    }
}

#[tokio::test]
async fn an_error_inside_the_stream_is_told_in_the_providers_words() {
    for (chunks, error) in
        ask_both(says("first").fault(Fault::ErrorEvent("GPU on fire".to_owned())), LONG).await
    {
        let error = error.unwrap();
        assert_eq!((chunks, error.kind), (vec![text("first")], ModelErrorKind::Server));
        assert!(error.message.ends_with(" failed: GPU on fire."), "{}", error.message);
    }
}

#[tokio::test]
async fn an_answer_is_complete_without_the_closing_event() {
    for (chunks, error) in ask_both(says("all").usage(1, 1).fault(Fault::NoClosingEvent), IDLE).await {
        assert_eq!(error, None);
        assert_eq!(chunks.last(), Some(&ModelChunk::Finish(FinishReason::Stop)));
    }
}

#[tokio::test]
async fn failing_statuses_are_classified() {
    use ModelErrorKind as K;
    let wait = Some(Duration::from_secs(7));
    let cases = [
        (
            fails(429, r#"{"error":{"message":"Slow down"}}"#).header("retry-after", "7"),
            K::RateLimit,
            429,
            wait,
        ),
        (fails(500, "oops"), K::Server, 500, None),
        (
            fails(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
            K::Server,
            529,
            None,
        ),
        (fails(401, r#"{"error":{"message":"bad key"}}"#), K::Auth, 401, None),
        (
            fails(400, r#"{"error":{"message":"maximum context length is 8 tokens"}}"#),
            K::ContextWindowExceeded,
            400,
            None,
        ),
        (fails(400, r#"{"error":{"message":"no"}}"#), K::BadRequest, 400, None),
    ];
    for (reply, kind, status, retry_after) in cases {
        for (_, error) in ask_both(reply.clone(), LONG).await {
            let error = error.unwrap();
            assert_eq!(
                (error.kind, error.status, error.retry_after),
                (kind, Some(status), retry_after),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn a_huge_event_arrives_whole() {
    let huge = "é".repeat(2 * 1024 * 1024);
    for (chunks, error) in ask_both(says(huge.clone()), LONG).await {
        assert_eq!(error, None);
        assert!(chunks[0] == text(&huge));
    }
}

#[tokio::test]
async fn missing_and_repeated_ids_become_different_ones() {
    let reply = calls("read", json!({}))
        .calls_raw("same", "read", &["{", "}"])
        .calls_raw("same", "grep", &["{}"])
        .calls_raw("", "glob", &[]);
    let (base_url, _model) = ScriptedModel::start(vec![reply]).unwrap();
    let models = models(vec![("OPENAI_BASE_URL", base_url)], LONG);
    let (chunks, error) = ask(&models, request("openai/some-model")).await;
    let ids: Vec<String> = chunks
        .iter()
        .filter_map(|chunk| match chunk {
            ModelChunk::ToolCall { id, .. } if !id.is_empty() => Some(id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(
        (ids, error),
        (vec!["scripted_1".to_owned(), "same".to_owned(), "call_2".to_owned(), "call_3".to_owned()], None)
    );
}

#[tokio::test]
async fn dropping_the_stream_hangs_up() {
    let gate = Gate::new();
    let (base_url, model) = ScriptedModel::start(vec![says("first").hold(&gate).says("never")]).unwrap();
    let models = models(vec![("OPENAI_BASE_URL", base_url)], LONG);
    let mut stream = models.stream(request("openai/some-model")).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(text("first"))));
    assert!(gate.wait_until_reached(LONG));
    drop(stream);
    let end = Instant::now() + LONG;
    while model.n_hang_ups() == 0 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(model.n_hang_ups(), 1);
}

#[tokio::test]
async fn concurrent_requests_get_their_own_replies() {
    let script = vec![says("for b").only_for("Bee"), says("for a").only_for("Ay"), says("rest").repeated()];
    let (base_url, model) = ScriptedModel::start(script).unwrap();
    let models = models(vec![("OPENAI_BASE_URL", base_url)], LONG);
    let asked = ["Ay", "Bee", "other", "other"].map(|system| {
        let mut request = request("openai/some-model");
        request.system = system.to_owned();
        ask(&models, request)
    });
    let answers = futures::future::join_all(asked).await;
    let firsts: Vec<&ModelChunk> = answers.iter().map(|(chunks, _)| &chunks[0]).collect();
    assert_eq!(firsts, [&text("for a"), &text("for b"), &text("rest"), &text("rest")]);
    assert_eq!((model.requests().len(), model.n_left()), (4, 0));
}

#[tokio::test]
async fn a_script_that_is_exhausted_says_so() {
    let (base_url, _model) = ScriptedModel::start(vec![]).unwrap();
    let models = models(vec![("OPENAI_BASE_URL", base_url)], LONG);
    let error = ask(&models, request("openai/some-model")).await.1.unwrap();
    assert_eq!(error.message, "openai failed (HTTP 500): the script is exhausted.");
}

#[tokio::test]
async fn deepseek_thinks_and_gets_its_reasoning_back() {
    use protocol::message::{AssistantBlock, AssistantMessage};
    let (base_url, model) = ScriptedModel::start(vec![says("ok").repeated()]).unwrap();
    let models = models(vec![("DEEPSEEK_BASE_URL", base_url)], LONG);
    let mut own = request("deepseek/deepseek-v4-flash");
    let said = |provider: &str, thought: &str| {
        HistoryMessage::Assistant(AssistantMessage {
            id: MessageId::new("a"),
            blocks: vec![
                AssistantBlock::Reasoning { text: thought.to_owned(), replay: None },
                AssistantBlock::Text { text: "said".to_owned() },
            ],
            model: ModelRef { provider: provider.to_owned(), model: "m".to_owned() },
        })
    };
    let prompt = own.messages[0].clone();
    own.messages.extend([said("deepseek", "mine"), prompt.clone(), said("openai", "theirs"), prompt]);
    let mut off = own.clone();
    off.effort = Some("off".to_owned());
    own.effort = Some("max".to_owned());
    assert_eq!(ask(&models, own).await.1, None);
    assert_eq!(ask(&models, off).await.1, None);
    let requests = model.requests();
    assert_eq!(
        requests[0]["messages"][2],
        json!({"role": "assistant", "content": "said", "reasoning_content": "mine"})
    );
    assert_eq!(
        requests[0]["messages"][4],
        json!({"role": "assistant", "content": "said", "reasoning_content": ""})
    );
    let switches =
        |index: usize| ["thinking", "reasoning_effort", "max_tokens"].map(|key| requests[index][key].clone());
    assert_eq!(switches(0), [json!({"type": "enabled"}), json!("max"), json!(256_000)]);
    assert_eq!(switches(1), [json!({"type": "disabled"}), json!(null), json!(256_000)]);
}

#[tokio::test]
async fn an_unreachable_provider_is_a_transport_error_without_its_address() {
    let (base_url, model) = ScriptedModel::start(vec![]).unwrap();
    drop(model);
    let with_secret = base_url.replace("http://", "http://me:hidden@");
    let models = models(vec![("OPENAI_BASE_URL", with_secret)], LONG);
    let error = ask(&models, request("openai/some-model")).await.1.unwrap();
    assert_eq!(error.kind, ModelErrorKind::Transport);
    assert!(error.message.starts_with("openai could not be reached: "), "{}", error.message);
    assert!(!error.message.contains("hidden"), "{}", error.message);
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let (base_url, model) = ScriptedModel::start(vec![says("ok").usage(1, 1).repeated()]).unwrap();
    let models = models(vec![("OPENAI_BASE_URL", base_url.clone()), ("ANTHROPIC_BASE_URL", base_url)], LONG);
    for name in ["openai/some-model", "anthropic/some-model", "openai/some-model", "anthropic/some-model"] {
        assert_eq!(ask(&models, request(name)).await.1, None);
    }
    assert_eq!((model.requests().len(), model.n_connections()), (4, 1));
}

/// A store that holds one image.
struct OneImage;

#[async_trait::async_trait]
impl Attachments for OneImage {
    async fn save(&self, _: Vec<u8>, _: Option<String>) -> Result<ImageAttachment, AttachmentError> {
        Err(AttachmentError::Unsupported)
    }

    async fn load(&self, id: &AttachmentId) -> Result<Vec<u8>, AttachmentError> {
        if id.as_str() == "here" { Ok(b"png".to_vec()) } else { Err(AttachmentError::Missing(id.clone())) }
    }
}

fn image(id: &str) -> ContentBlock {
    ContentBlock::Image {
        attachment: ImageAttachment {
            attachment_id: AttachmentId::new(id),
            media_type: "image/png".to_owned(),
            bytes: 3,
            width: 2,
            height: 1,
            name: Some(format!("{id}.png")),
            original_dimensions: None,
        },
    }
}

#[tokio::test]
async fn images_go_to_models_that_take_them_and_are_refused_or_named_elsewhere() {
    let (base_url, model) = ScriptedModel::start(vec![says("ok").repeated()]).unwrap();
    let credentials =
        Credentials::with_variables(None, move |name| name.ends_with("_BASE_URL").then(|| base_url.clone()));
    let models = LlmModels::new(LlmConfig::default(), credentials, Some(Arc::new(OneImage)));
    let with_images = |name: &str, source: MessageSource| {
        let mut request = request(name);
        let content = vec![ContentBlock::text("look"), image("here"), image("gone")];
        request.messages =
            vec![HistoryMessage::User(UserMessage { id: MessageId::new("m"), content, source })];
        request
    };
    let sees = "deepseek/deepseek-v4-flash-vision-exp";
    assert_eq!(ask(&models, with_images(sees, MessageSource::User)).await.1, None);
    assert_eq!(ask(&models, with_images("anthropic/claude-sonnet-5", MessageSource::User)).await.1, None);
    let gone = "[image gone.png, 2x1, left out: attachment gone is not in the store any more]";
    let content =
        |index: usize, message: usize| model.requests()[index]["messages"][message]["content"].clone();
    assert_eq!(
        content(0, 1),
        json!([
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
            {"type": "text", "text": gone},
        ])
    );
    assert_eq!(
        content(1, 0),
        json!([
            {"type": "text", "text": "look"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}},
            {"type": "text", "text": gone, "cache_control": {"type": "ephemeral"}},
        ])
    );

    let blind = "deepseek/deepseek-v4-flash";
    let error = ask(&models, with_images(blind, MessageSource::User)).await.1.unwrap();
    assert_eq!(error.kind, ModelErrorKind::UnsupportedContent);
    assert_eq!(
        ask(
            &models,
            with_images(blind, MessageSource::Goal { goal_id: "goal-1".into(), revision: 1, round: 1 })
        )
        .await
        .1,
        None
    );
    assert_eq!(
        content(2, 1),
        json!(
            "look\n\n[image here.png, 2x1, left out: this model takes no images]\n\n[image gone.png, 2x1, left out: this model takes no images]"
        )
    );
}

#[tokio::test]
async fn a_key_never_shows_in_errors() {
    let echo = fails(401, r#"{"error":{"message":"Incorrect API key provided: sk-hidden"}}"#);
    let (base_url, _model) = ScriptedModel::start(vec![echo]).unwrap();
    let models =
        models(vec![("OPENAI_BASE_URL", base_url), ("OPENAI_API_KEY", "sk-hidden".to_owned())], LONG);
    let error = ask(&models, request("openai/some-model")).await.1.unwrap();
    assert_eq!(
        error.message,
        "openai did not accept the key (HTTP 401): Incorrect API key provided: [key]. Set OPENAI_API_KEY or run `followspot login openai`."
    );
}
