//! Failures in the provider's own words: which kind, and what the person reads.
//!
//! Called by the HTTP layer and the decoders. A key never gets into a message, even when the provider echoes it.

use crate::credentials::Secret;
use reqwest::header::HeaderMap;
use serde_json::Value;
use services::model::{ModelError, ModelErrorKind};
use std::error::Error as _;
use std::time::Duration;

/// Characters of a provider's reason that are passed on.
const MAX_REASON_CHARS: usize = 2_000;

/// Fragments of messages that mean that the conversation is too long, lower case.
const OVERFLOW_WORDS: &[&str] = &[
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "exceed context limit",
    "prompt is too long",
    "input is too long",
    "input length",
    "prompt too long",
    "too many input tokens",
    "reduce the length",
    "model_max_prompt_tokens_exceeded",
    "request_too_large",
];

/// Fragments that mean that the account, not the moment, is the limit: waiting does not help.
const QUOTA_WORDS: &[&str] =
    &["insufficient_quota", "exceeded your current quota", "credit balance", "billing"];

/// Who is spoken to, for the words of an error.
#[derive(Clone, Debug)]
pub(crate) struct Wording {
    /// Provider as the user names it.
    pub provider: String,
    /// The key in use, to keep it out of messages.
    pub secret: Option<Secret>,
    /// What to do when the key is refused.
    pub key_remedy: String,
}

/// What a provider said about a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    reason: String,
    /// Code and type, joined, for classification only.
    code: String,
    /// A numeric code, which gateways use for the status of the provider behind them.
    status: Option<u16>,
}

impl Wording {
    /// A failure of `kind` with our own words.
    pub fn plain(&self, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
        ModelError { kind, message: self.redact(message.into()), status: None, retry_after: None }
    }

    /// The answer had a failing status.
    pub fn http(&self, status: u16, headers: &HeaderMap, body: &str) -> ModelError {
        let said = read_body(body);
        let mut error = self.told(said, Some(status));
        error.retry_after = retry_after(headers);
        if (300..400).contains(&status)
            && let Some(target) = headers.get("location").and_then(|value| value.to_str().ok())
        {
            error
                .message
                .push_str(&format!(" It redirects to {target}; put the final address into the base URL."));
        }
        if status == 404 {
            error
                .message
                .push_str(" Check the model's name, and whether the base URL needs a path such as /v1.");
        }
        error
    }

    /// An error object came inside the stream.
    pub fn in_stream(&self, value: &Value) -> ModelError {
        let said = read_value(value);
        let status = said.status;
        self.told(said, status)
    }

    /// The connection failed or broke.
    pub fn transport(&self, error: reqwest::Error) -> ModelError {
        // The address may hold a user's secret; the provider's name says enough.
        let error = error.without_url();
        let kind = if error.is_timeout() { ModelErrorKind::Timeout } else { ModelErrorKind::Transport };
        let what = if error.is_connect() {
            "could not be reached"
        } else if error.is_body() || error.is_decode() {
            "broke off its answer"
        } else {
            "could not be asked"
        };
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if causes.last() != Some(&text) {
                causes.push(text);
            }
            source = cause.source();
        }
        let cause = if causes.is_empty() { error.to_string() } else { causes.join(": ") };
        self.plain(kind, format!("{} {what}: {cause}.", self.provider))
    }

    /// No event came within the idle budget.
    pub fn idle(&self, budget: Duration) -> ModelError {
        self.plain(ModelErrorKind::Timeout, format!("{} sent nothing for {budget:?}.", self.provider))
    }

    /// The stream ended before the answer was complete.
    pub fn cut_off(&self) -> ModelError {
        let message = format!("{} broke off its answer before it was complete.", self.provider);
        self.plain(ModelErrorKind::Transport, message)
    }

    /// The answer was complete and held nothing.
    pub fn empty(&self) -> ModelError {
        self.plain(ModelErrorKind::EmptyResponse, format!("{} gave an empty answer.", self.provider))
    }

    fn told(&self, said: Said, status: Option<u16>) -> ModelError {
        let kind = classify(status, &said);
        let provider = &self.provider;
        let what = match kind {
            ModelErrorKind::Auth => "did not accept the key",
            ModelErrorKind::RateLimit => "asks to slow down",
            ModelErrorKind::Server => "failed",
            ModelErrorKind::Timeout => "took too long",
            ModelErrorKind::ContextWindowExceeded => "says that the conversation is too long",
            ModelErrorKind::UnsupportedContent => "does not take something in the request",
            _ => "refused the request",
        };
        let number = status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        let reason = if said.reason.is_empty() { "no reason given".to_owned() } else { said.reason };
        let mut message = format!("{provider} {what}{number}: {reason}");
        if !message.ends_with(['.', '!', '?']) {
            message.push('.');
        }
        if kind == ModelErrorKind::Auth {
            message.push(' ');
            message.push_str(&self.key_remedy);
        }
        ModelError { kind, message: self.redact(message), status, retry_after: None }
    }

    fn redact(&self, message: String) -> String {
        match &self.secret {
            Some(secret) => message.replace(secret.expose(), "[key]"),
            None => message,
        }
    }
}

fn classify(status: Option<u16>, said: &Said) -> ModelErrorKind {
    let text = format!("{} {}", said.code, said.reason).to_lowercase();
    let mentions = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match status {
        // Forbidden is also the word for regions and moderation, where another key does not help.
        Some(403) if !mentions(&["key", "auth", "token", "permission"]) && !said.reason.is_empty() => {
            return ModelErrorKind::BadRequest;
        }
        Some(401 | 403) => return ModelErrorKind::Auth,
        Some(408) => return ModelErrorKind::Timeout,
        Some(429) if mentions(QUOTA_WORDS) => return ModelErrorKind::BadRequest,
        Some(429) => return ModelErrorKind::RateLimit,
        // Some servers answer 500 to a prompt that does not fit.
        Some(413) => return ModelErrorKind::ContextWindowExceeded,
        Some(500) if mentions(OVERFLOW_WORDS) => return ModelErrorKind::ContextWindowExceeded,
        Some(500..) => return ModelErrorKind::Server,
        _ => {}
    }
    if mentions(OVERFLOW_WORDS) {
        ModelErrorKind::ContextWindowExceeded
    } else if mentions(&[
        "image_url",
        "image input",
        "images are not supported",
        "does not support image",
        "vision",
    ]) {
        ModelErrorKind::UnsupportedContent
    } else if status.is_some() {
        ModelErrorKind::BadRequest
    } else if mentions(&["authentication", "invalid_api_key", "permission_error"]) {
        ModelErrorKind::Auth
    } else if mentions(QUOTA_WORDS) || mentions(&["invalid_request", "not_found"]) {
        ModelErrorKind::BadRequest
    } else if mentions(&["rate_limit", "rate limit", "too many requests"]) {
        ModelErrorKind::RateLimit
    } else {
        // An error in the middle of an answer without a code we know: the request had been accepted.
        ModelErrorKind::Server
    }
}

fn read_body(body: &str) -> Said {
    match serde_json::from_str::<Value>(body) {
        Ok(value) => read_value(&value),
        // A page of a proxy: its title says it.
        Err(_) if body.trim_start().starts_with('<') => {
            let title = body.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
            Said { reason: one_line(title.map_or("", |(title, _)| title)), ..Said::default() }
        }
        Err(_) => Said { reason: one_line(body), ..Said::default() },
    }
}

fn read_value(value: &Value) -> Said {
    let value = match value {
        Value::Array(items) => items.first().unwrap_or(&Value::Null),
        other => other,
    };
    let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let reason = text(error)
        .or_else(|| ["message", "detail", "error"].iter().find_map(|key| error.get(*key).and_then(text)))
        .unwrap_or_else(|| if error.is_null() { String::new() } else { error.to_string() });
    // A gateway's own message says little; what the provider behind it said is here.
    let behind = error.pointer("/metadata/raw").and_then(Value::as_str).unwrap_or("");
    let reason = if behind.is_empty() { reason } else { format!("{reason}: {behind}") };
    let code = ["code", "type"]
        .iter()
        .filter_map(|key| error.get(*key).and_then(Value::as_str))
        .collect::<Vec<_>>()
        .join(" ");
    let status = error
        .get("code")
        .and_then(Value::as_u64)
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| (400..600).contains(code))
        .or_else(|| code.contains("overloaded_error").then_some(529));
    Said { reason: one_line(&reason), code, status }
}

/// Joins the lines and cuts what nobody would read.
fn one_line(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match joined.char_indices().nth(MAX_REASON_CHARS) {
        Some((cut, _)) => format!("{}…", &joined[..cut]),
        None => joined,
    }
}

/// `retry-after` in seconds, or OpenAI's `retry-after-ms`. Dates are not taken: no model provider sends them.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| -> Option<f64> {
        headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok().filter(|number| number.is_finite())
    };
    let seconds = number("retry-after-ms").map(|millis| millis / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wording() -> Wording {
        Wording {
            provider: "acme".to_owned(),
            secret: Some(Secret::new("sk-secret")),
            key_remedy: "Set ACME_KEY.".to_owned(),
        }
    }

    #[test]
    fn bodies_of_many_shapes_give_kind_and_reason() {
        use ModelErrorKind as K;
        let cases = [
            (
                403,
                r#"{"error":{"message":"Country not supported"}}"#,
                K::BadRequest,
                "acme refused the request (HTTP 403): Country not supported.",
            ),
            (403, "", K::Auth, "acme did not accept the key (HTTP 403): no reason given. Set ACME_KEY."),
            (
                401,
                r#"{"error":{"message":"Incorrect key: sk-secret"}}"#,
                K::Auth,
                "acme did not accept the key (HTTP 401): Incorrect key: [key]. Set ACME_KEY.",
            ),
            (
                429,
                r#"{"error":{"message":"Slow down!","type":"rate_limit"}}"#,
                K::RateLimit,
                "acme asks to slow down (HTTP 429): Slow down!",
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
                K::BadRequest,
                "acme refused the request (HTTP 429): You exceeded your current quota.",
            ),
            (
                400,
                r#"{"error":{"message":"Too long","code":"context_length_exceeded"}}"#,
                K::ContextWindowExceeded,
                "acme says that the conversation is too long (HTTP 400): Too long.",
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
                K::ContextWindowExceeded,
                "acme says that the conversation is too long (HTTP 400): prompt is too long: 9 tokens > 8 maximum.",
            ),
            (
                400,
                r#"[{"error":{"code":400,"message":"Bad tool"}}]"#,
                K::BadRequest,
                "acme refused the request (HTTP 400): Bad tool.",
            ),
            (
                402,
                r#"{"error":{"message":"Insufficient Balance"}}"#,
                K::BadRequest,
                "acme refused the request (HTTP 402): Insufficient Balance.",
            ),
            (
                502,
                "<html><head><title>502 Bad\nGateway</title></head></html>",
                K::Server,
                "acme failed (HTTP 502): 502 Bad Gateway.",
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                K::Server,
                "acme failed (HTTP 529): Overloaded.",
            ),
            (500, "", K::Server, "acme failed (HTTP 500): no reason given."),
            (
                422,
                r#"{"detail":"unknown field"}"#,
                K::BadRequest,
                "acme refused the request (HTTP 422): unknown field.",
            ),
            (
                400,
                r#"{"error":"model does not support images: image_url"}"#,
                K::UnsupportedContent,
                "acme does not take something in the request (HTTP 400): model does not support images: image_url.",
            ),
        ];
        for (status, body, kind, message) in cases {
            let error = wording().http(status, &HeaderMap::new(), body);
            let expected =
                ModelError { kind, message: message.to_owned(), status: Some(status), retry_after: None };
            assert_eq!(error, expected, "{body}");
        }
    }

    #[test]
    fn errors_inside_a_stream_are_classified_by_code() {
        use ModelErrorKind as K;
        let cases = [
            (r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#, K::Server, Some(529)),
            (
                r#"{"error":{"code":429,"message":"Busy","metadata":{"raw":"upstream busy"}}}"#,
                K::RateLimit,
                Some(429),
            ),
            (r#"{"error":{"message":"maximum context length is 8"}}"#, K::ContextWindowExceeded, None),
            (r#"{"error":{"message":"boom"}}"#, K::Server, None),
            (r#"{"error":"boom"}"#, K::Server, None),
        ];
        for (body, kind, status) in cases {
            let error = wording().in_stream(&serde_json::from_str(body).unwrap());
            assert_eq!((error.kind, error.status), (kind, status), "{body}");
        }
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_milliseconds() {
        let cases = [
            (vec![("retry-after", "2")], Some(Duration::from_secs(2))),
            (vec![("retry-after", "2"), ("retry-after-ms", "250")], Some(Duration::from_millis(250))),
            (vec![("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], None),
            (vec![("retry-after", "-1")], None),
            (vec![], None),
        ];
        for (headers, expected) in cases {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(name, value.parse().unwrap());
            }
            assert_eq!(retry_after(&map), expected);
        }
    }
}
