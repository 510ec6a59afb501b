//! The HTTP clients, each built on first use, and a body within bounds.
//!
//! TLS roots are the built-in ones (`SSL_CERT_FILE` adds to them). No client follows a redirect by itself: each hop is
//! checked by `fetch.rs`, and a search key must not travel to another host. None keeps cookies.

use crate::address::AllowList;
use crate::resolver::{BlockedName, GuardedResolver, Resolver};
use reqwest::{Client, ClientBuilder, Response};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use services::web::{WebError, WebErrorKind};
use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

type Built = OnceLock<Result<Client, String>>;

/// The client for pages: it connects to public addresses only.
pub(crate) struct Guarded {
    resolver: Arc<dyn Resolver>,
    allow: Arc<AllowList>,
    client: Built,
}

impl Guarded {
    /// A client that is not built yet.
    pub fn new(resolver: Arc<dyn Resolver>, allow: Arc<AllowList>) -> Self {
        Self { resolver, allow, client: OnceLock::new() }
    }

    /// # Errors
    /// TLS cannot be set up.
    pub fn client(&self) -> Result<&Client, WebError> {
        let guard = || GuardedResolver { resolver: self.resolver.clone(), allow: self.allow.clone() };
        // A proxy would look names up itself, out of sight of the guard.
        built(&self.client, |builder| builder.no_proxy().dns_resolver(guard()))
    }
}

/// The clients for search endpoints, which the user chose: straight to loopback, else as the proxy variables say.
#[derive(Default)]
pub(crate) struct Outward {
    direct: Built,
    proxied: Built,
}

impl Outward {
    /// # Errors
    /// TLS cannot be set up.
    pub fn client(&self, is_loopback: bool) -> Result<&Client, WebError> {
        if is_loopback {
            built(&self.direct, ClientBuilder::no_proxy)
        } else {
            built(&self.proxied, |builder| builder)
        }
    }
}

fn built(cell: &Built, finish: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Result<&Client, WebError> {
    let client = cell.get_or_init(|| {
        let builder = Client::builder()
            .user_agent(concat!("followspot/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls()?)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none());
        finish(builder).build().map_err(|error| error.to_string())
    });
    client.as_ref().map_err(|error| {
        WebError::new(WebErrorKind::Provider, format!("the HTTP client cannot start: {error}"))
    })
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

/// The beginning of a body, decompressed, and whether it goes on.
///
/// # Errors
/// The connection broke or the compression is damaged.
pub(crate) async fn read_body(
    mut response: Response,
    max_bytes: usize,
) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        let room = max_bytes - body.len();
        if bytes.len() > room {
            body.extend_from_slice(&bytes[..room]);
            return Ok((body, true));
        }
        body.extend_from_slice(&bytes);
    }
    Ok((body, false))
}

/// A failed request in words, without the address: it may hold a key.
pub(crate) fn failed(host: &str, error: &reqwest::Error) -> WebError {
    let mut deepest: &dyn Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
        if let Some(blocked) = deepest.downcast_ref::<BlockedName>() {
            return blocked_address(&blocked.to_string());
        }
    }
    if error.is_timeout() {
        return WebError::new(WebErrorKind::Timeout, format!("{host} did not answer in time"));
    }
    let what = if error.is_connect() {
        "could not be reached"
    } else if error.is_decode() {
        "sent a body that cannot be decoded"
    } else {
        "broke the connection off"
    };
    WebError::new(WebErrorKind::Provider, format!("{host} {what}: {deepest}"))
}

/// The refusal of a private address.
pub(crate) fn blocked_address(fact: &str) -> WebError {
    let remedy = "It was not fetched. The user can allow it in the configuration with [web] allow_private.";
    WebError::new(WebErrorKind::BlockedUrl, format!("{fact}. {remedy}"))
}
