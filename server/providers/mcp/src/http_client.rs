//! The HTTP client of servers behind addresses, built when the first one is connected.
//!
//! TLS roots are the built-in ones. Redirects are not followed: a header with a key must not travel to another host.

use http::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);

/// A transport to an address.
///
/// # Errors
/// What is wrong with the address, a header, or the client; names of headers only, never values.
pub fn transport(
    url: &str,
    headers: &[(String, String)],
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let address = reqwest::Url::parse(url).map_err(|error| format!("its address is wrong: {error}"))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err(format!("its address begins with {}:, not with http: or https:", address.scheme()));
    }
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let header =
            HeaderName::try_from(name.as_str()).map_err(|_| format!("{name:?} is no name of a header"))?;
        let mut value = HeaderValue::try_from(value.as_str())
            .map_err(|_| format!("the value of header {name} is not allowed"))?;
        value.set_sensitive(true);
        custom.insert(header, value);
    }
    let is_loopback = matches!(address.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom);
    Ok(StreamableHttpClientTransport::with_client(client(is_loopback)?, config))
}

fn client(is_loopback: bool) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("followspot/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls()?)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none());
    if is_loopback {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| error.to_string())
}

fn tls() -> Result<rustls::ClientConfig, String> {
    let provider = rustls::crypto::ring::default_provider();
    // Fails only when some other part of the process has done it, which is as good.
    let _ = provider.clone().install_default();
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
