//! The HTTP client, built on first use, and one streamed POST.
//!
//! Called by the two wire formats. The constructor is free; TLS roots are the built-in ones, so nothing of the system
//! is parsed (`SSL_CERT_FILE` adds to them). Redirects are not followed: a key must not travel to another host.

use crate::failure::Wording;
use crate::sse::SseEvent;
use crate::stream::{Decoder, Progress, decode};
use futures::stream::BoxStream;
use protocol::model::ModelChunk;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Serialize;
use services::model::{ModelError, ModelErrorKind};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of an error body that are read.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// How long an error body may take once its status is known.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that came whole instead of as a stream.
const MAX_WHOLE_BODY_BYTES: usize = 8 * 1024 * 1024;

/// Chunks of an answer.
pub(crate) type Chunks = BoxStream<'static, Result<ModelChunk, ModelError>>;

/// The clients of the process: one that goes straight to loopback, one that honours the proxy variables.
#[derive(Default)]
pub(crate) struct Http {
    direct: OnceLock<Result<reqwest::Client, String>>,
    outward: OnceLock<Result<reqwest::Client, String>>,
}

/// One request, apart from its body.
pub(crate) struct Post {
    pub url: String,
    /// Whether the address is this machine's.
    pub is_loopback: bool,
    /// Headers of the wire format; values that hold keys are marked sensitive.
    pub headers: HeaderMap,
    /// Longest silence between two events, and before the first.
    pub idle: Duration,
    pub wording: Wording,
}

impl Http {
    fn client(&self, is_loopback: bool) -> Result<&reqwest::Client, String> {
        let cell = if is_loopback { &self.direct } else { &self.outward };
        cell.get_or_init(|| build(is_loopback)).as_ref().map_err(Clone::clone)
    }

    /// Sends `body` as JSON and decodes the event stream that answers it.
    ///
    /// # Cancellation
    /// Dropping the future or the stream closes the connection.
    pub async fn stream<D: Decoder>(
        &self,
        post: Post,
        body: &impl Serialize,
        mut decoder: D,
    ) -> Result<Chunks, ModelError> {
        let Post { url, is_loopback, headers, idle, wording } = post;
        let client = self.client(is_loopback).map_err(|error| {
            wording.plain(ModelErrorKind::Transport, format!("The HTTP client cannot start: {error}."))
        })?;
        let body = serde_json::to_vec(body).map_err(|error| {
            wording.plain(ModelErrorKind::BadRequest, format!("The request cannot be written: {error}."))
        })?;
        let request = client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .headers(headers)
            .body(body);
        let response = tokio::time::timeout(idle, request.send())
            .await
            .map_err(|_| wording.idle(idle))?
            .map_err(|error| wording.transport(error))?;

        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let text = bounded_body(response, MAX_ERROR_BODY_BYTES, ERROR_BODY_TIMEOUT).await;
            return Err(wording.http(status.as_u16(), &headers, &text));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        if kind.starts_with("text/html") {
            let message = format!("{} answered with a web page; check the base URL.", wording.provider);
            return Err(wording.plain(ModelErrorKind::BadRequest, message));
        }
        if kind.starts_with("application/json") {
            // No stream: an error behind a good status, which gateways do, or a server that cannot stream.
            let data = bounded_body(response, MAX_WHOLE_BODY_BYTES, idle).await;
            let mut chunks = VecDeque::new();
            let event = SseEvent { name: String::new(), data };
            return match decoder.event(&event, &mut chunks) {
                Err(error) => Err(error),
                Ok(Progress::Complete) => Ok(Box::pin(futures::stream::iter(chunks.into_iter().map(Ok)))),
                Ok(_) => Err(wording.plain(
                    ModelErrorKind::BadRequest,
                    format!(
                        "{} answered without a stream; this program needs a streaming endpoint.",
                        wording.provider
                    ),
                )),
            };
        }
        Ok(decode(response.bytes_stream(), decoder, idle, wording))
    }
}

/// Marks a header value as one that holds a key.
pub(crate) fn secret_header(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A header map from pairs of static names and values.
pub(crate) fn header_map<const N: usize>(pairs: [(&'static str, HeaderValue); N]) -> HeaderMap {
    pairs.into_iter().map(|(name, value)| (HeaderName::from_static(name), value)).collect()
}

fn build(is_loopback: bool) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("followspot/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls()?)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        // A compressed event stream is one that some proxy holds back until its window is full.
        .no_gzip()
        .no_brotli();
    if is_loopback {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| error.to_string())
}

fn tls() -> Result<rustls::ClientConfig, String> {
    let provider = rustls::crypto::ring::default_provider();
    // Fails only when some other part of the process has done it, which is as good.
    let _ = provider.clone().install_default();
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = std::env::var_os("SSL_CERT_FILE") {
        let certificates = CertificateDer::pem_file_iter(&path)
            .map_err(|error| format!("SSL_CERT_FILE ({}): {error}", path.display()))?;
        roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    }
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// What came of a body within the bounds; enough to say what went wrong.
async fn bounded_body(mut response: reqwest::Response, max_bytes: usize, limit: Duration) -> String {
    let mut body = Vec::new();
    let read = async {
        while body.len() < max_bytes {
            match response.chunk().await {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                Ok(None) | Err(_) => break,
            }
        }
    };
    // Running out of time only cuts the text.
    let _ = tokio::time::timeout(limit, read).await;
    String::from_utf8_lossy(&body).into_owned()
}
