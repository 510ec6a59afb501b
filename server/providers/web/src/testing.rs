//! A loopback HTTP server that answers each path with fixed bytes, and a resolver that changes its mind.

use crate::{HttpWeb, Keys, Limits, Resolver, WebSettings};
use async_trait::async_trait;
use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The running server; it lives as long as the test's process.
pub(crate) struct Site {
    pub port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// Serves these raw responses; what is not listed is a 404 of text. An empty response is never answered.
    pub fn serving(pages: impl IntoIterator<Item = (&'static str, Vec<u8>)>) -> Self {
        let pages: Arc<HashMap<&'static str, Vec<u8>>> = Arc::new(pages.into_iter().collect());
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (pages, log) = (pages.clone(), log.clone());
                std::thread::spawn(move || answer(stream, &pages, &log));
            }
        });
        Self { port, seen }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Every request as it came: line, headers, body.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn answer(stream: TcpStream, pages: &HashMap<&'static str, Vec<u8>>, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut head, mut n_body) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            n_body = length.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; n_body];
    reader.read_exact(&mut body).ok()?;
    let target = head.split(' ').nth(1)?.to_owned();
    let path = target.split('?').next()?.to_owned();
    log.lock().unwrap_or_else(PoisonError::into_inner).push(head + &String::from_utf8_lossy(&body));
    let missing = reply("404 Not Found", &[("Content-Type", "text/plain")], b"gone");
    let response = pages.get(path.as_str()).unwrap_or(&missing);
    if response.is_empty() {
        std::thread::sleep(Duration::from_secs(5));
    }
    let mut stream = stream;
    stream.write_all(response).ok()
}

/// A raw response with its length.
pub(crate) fn reply(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// A page of this type.
pub(crate) fn page(content_type: &str, body: &[u8]) -> Vec<u8> {
    reply("200 OK", &[("Content-Type", content_type)], body)
}

/// A response without a length, which ends with the connection.
pub(crate) fn unsized_page(content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: {content_type}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// A redirect.
pub(crate) fn redirect(location: &str) -> Vec<u8> {
    reply("302 Found", &[("Location", location)], b"")
}

/// A resolver whose answers come in turn; the last one stays.
pub(crate) struct Turning {
    answers: Vec<Vec<IpAddr>>,
    n_asked: AtomicUsize,
}

impl Turning {
    pub fn new(answers: &[&[&str]]) -> Self {
        let addresses = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Self { answers: answers.iter().map(addresses).collect(), n_asked: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Resolver for Turning {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        let n_asked = self.n_asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.answers[n_asked.min(self.answers.len() - 1)].clone())
    }
}

/// Keys in the environment.
pub(crate) fn environment(variables: &'static [(&'static str, &'static str)]) -> Keys {
    Arc::new(|_, name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

/// A web that may reach these private places.
pub(crate) fn web(allow: &[&str], resolver: Turning) -> HttpWeb {
    let settings = WebSettings {
        allow_private: allow.iter().map(|entry| (*entry).to_owned()).collect(),
        ..WebSettings::default()
    };
    HttpWeb::with_resolver(settings, environment(&[]), Arc::new(resolver))
}

pub(crate) fn limits(max_bytes: usize, max_chars: usize) -> Limits {
    Limits { timeout: Duration::from_secs(10), max_bytes, max_chars }
}
