//! One page: the address checked, redirects followed by hand, the body read within bounds and made text.
//!
//! Source: `spec/tools-files-shell.md` §14.

use crate::address::AllowList;
use crate::http::{Guarded, blocked_address, failed, read_body};
use crate::{Limits, charset, markdown};
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Response, Url};
use services::web::{FetchedPage, PageBody, WebError, WebErrorKind};
use std::net::IpAddr;

/// Longest address, in characters.
const MAX_URL_CHARS: usize = 2048;
/// Redirects that are followed.
const MAX_REDIRECTS: usize = 5;
/// Statuses that name another address.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
const ACCEPTED: &str = "text/html, application/xhtml+xml, text/markdown, text/plain;q=0.9, application/json;q=0.9, text/*;q=0.8, */*;q=0.1";

/// Gets the page at `address`.
///
/// # Errors
/// As [`services::web::Web::fetch`].
pub(crate) async fn fetch(
    http: &Guarded,
    allow: &AllowList,
    limits: Limits,
    address: &str,
) -> Result<FetchedPage, WebError> {
    let url = checked(allow, address)?;
    let host = host_of(&url);
    let raw =
        tokio::time::timeout(limits.timeout, raw_page(http, allow, limits, url)).await.map_err(|_| {
            WebError::new(
                WebErrorKind::Timeout,
                format!("{host} did not send the page within {} s", limits.timeout.as_secs_f32()),
            )
        })??;
    let RawPage { url, status_code, text, is_html, truncated } = raw;
    let body = if is_html {
        let (source, markdown) = markdown::convert_off_thread(text).await;
        PageBody::Html { source, markdown }
    } else {
        PageBody::Text(text)
    };
    Ok(FetchedPage { url: url.into(), status_code, body, truncated })
}

/// A page before its conversion.
struct RawPage {
    url: Url,
    status_code: u16,
    text: String,
    is_html: bool,
    truncated: bool,
}

async fn raw_page(
    http: &Guarded,
    allow: &AllowList,
    limits: Limits,
    mut url: Url,
) -> Result<RawPage, WebError> {
    let client = http.client()?;
    let mut n_redirects = 0;
    loop {
        let sent = client.get(url.clone()).header(ACCEPT, ACCEPTED).send().await;
        let response = sent.map_err(|error| failed(&host_of(&url), &error))?;
        if !REDIRECTS.contains(&response.status().as_u16()) {
            return page_of(response, limits, url).await;
        }
        let target = redirect_target(allow, &url, &response)?;
        if n_redirects == MAX_REDIRECTS {
            return Err(WebError::new(
                WebErrorKind::RedirectBlocked,
                format!("more than {MAX_REDIRECTS} redirects; the last one leads to {target}"),
            ));
        }
        n_redirects += 1;
        url = target;
    }
}

/// Where a redirect leads, if it may be followed.
fn redirect_target(allow: &AllowList, url: &Url, response: &Response) -> Result<Url, WebError> {
    let status = response.status().as_u16();
    let location =
        response.headers().get(LOCATION).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    let Some(location) = location else {
        return Err(WebError::new(
            WebErrorKind::Provider,
            format!("{} answered HTTP {status} without saying where to go", host_of(url)),
        ));
    };
    let joined = url.join(location).map_err(|error| {
        WebError::new(
            WebErrorKind::InvalidUrl,
            format!("{} redirects to an address that is none: {error}", host_of(url)),
        )
    })?;
    let target = checked(allow, joined.as_str())?;
    if target.origin() != url.origin() {
        return Err(WebError::new(
            WebErrorKind::RedirectBlocked,
            format!("{url} redirects to {target}, which is another site. Fetch that address if you want it."),
        ));
    }
    Ok(target)
}

/// An address that may be asked.
fn checked(allow: &AllowList, address: &str) -> Result<Url, WebError> {
    let invalid = |message: String| WebError::new(WebErrorKind::InvalidUrl, message);
    if address.chars().count() > MAX_URL_CHARS {
        return Err(invalid(format!("the address is longer than {MAX_URL_CHARS} characters")));
    }
    let url = Url::parse(address).map_err(|error| {
        invalid(format!("this is no web address ({error}); write it whole, with https://"))
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(format!("only http and https are fetched, not {}", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(WebError::new(
            WebErrorKind::BlockedUrl,
            "the address holds a user name or password; nothing was sent. Leave them out.",
        ));
    }
    let host = host_of(&url);
    // A host that is an address is never asked of a resolver; the parser has turned every spelling into one form.
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match literal {
        Ok(literal) if !allow.permits(literal) && !allow.opens_host(&host) => {
            Err(blocked_address(&format!("{literal} is not on the public internet")))
        }
        _ => Ok(url),
    }
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

async fn page_of(response: Response, limits: Limits, url: Url) -> Result<RawPage, WebError> {
    let host = host_of(&url);
    let status_code = response.status().as_u16();
    let header =
        |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let unsupported = |what: String| {
        WebError::new(
            WebErrorKind::UnsupportedContentType,
            format!("{url} (HTTP {status_code}) {what}; only text is fetched"),
        )
    };
    let content_type = header(CONTENT_TYPE).to_owned();
    let is_html = match text_kind(&content_type) {
        Some(is_html) => is_html,
        None if content_type.is_empty() => return Err(unsupported("does not say what it is".to_owned())),
        None => return Err(unsupported(format!("is {content_type}"))),
    };
    // Whatever the client could undo is gone from the headers.
    let encoding = header(CONTENT_ENCODING);
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
        return Err(unsupported(format!("is compressed in a way that is not known ({encoding})")));
    }
    if let Some(n_bytes) = response.content_length().filter(|n_bytes| *n_bytes > limits.max_bytes as u64) {
        return Err(WebError::new(
            WebErrorKind::TooLarge,
            format!("{url} is {n_bytes} bytes long; at most {} are fetched", limits.max_bytes),
        ));
    }
    let (bytes, is_cut) =
        read_body(response, limits.max_bytes).await.map_err(|error| failed(&host, &error))?;
    let mut text = charset::decode(&bytes, charset_of(&content_type), is_html)
        .map_err(|label| unsupported(format!("is in an unknown encoding ({label})")))?;
    let end = text.char_indices().nth(limits.max_chars).map(|(end, _)| end);
    if let Some(end) = end {
        text.truncate(end);
    }
    Ok(RawPage { url, status_code, text, is_html, truncated: is_cut || end.is_some() })
}

/// Whether this is HTML; `None` for what is no text.
fn text_kind(content_type: &str) -> Option<bool> {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if matches!(essence.as_str(), "text/html" | "application/xhtml+xml") {
        return Some(true);
    }
    let is_text = essence.starts_with("text/")
        || matches!(essence.as_str(), "application/json" | "application/xml")
        || essence.ends_with("+json")
        || essence.ends_with("+xml");
    is_text.then_some(false)
}

fn charset_of(content_type: &str) -> Option<&str> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim())
    })
}
