//! The loopback server: one thread that accepts, one a connection.

use super::reply::{Fault, Gate, Part, Reply};
use super::write::{Format, Writer};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a waiting reply looks whether the client has gone.
const POLL: Duration = Duration::from_millis(5);

/// A request as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// Path of the request line.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; null when it was not JSON.
    pub body: Value,
}

/// The running server. Dropping it closes every connection.
#[derive(Debug)]
pub struct ScriptedModel {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    script: Mutex<VecDeque<Reply>>,
    received: Mutex<Vec<Received>>,
    arrived: Condvar,
    connections: Mutex<Vec<(TcpStream, JoinHandle<()>)>>,
    is_stopping: AtomicBool,
    n_hang_ups: AtomicUsize,
    n_calls: AtomicUsize,
}

impl ScriptedModel {
    /// Starts a server and returns its base URL (`http://127.0.0.1:PORT/v1`) and its handle.
    ///
    /// A request beyond the script is answered with status 500 and says so, unless the last reply is
    /// [`Reply::repeated`].
    ///
    /// # Errors
    /// No loopback port or no thread can be had.
    pub fn start(script: Vec<Reply>) -> io::Result<(String, Self)> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { script: Mutex::new(script.into()), ..Shared::default() });
        let serving = Arc::clone(&shared);
        let acceptor = std::thread::Builder::new().spawn(move || accept(&listener, &serving))?;
        Ok((format!("http://{address}/v1"), Self { shared, address, acceptor: Some(acceptor) }))
    }

    /// Adds a reply at the end of the script.
    pub fn push(&self, reply: Reply) {
        lock(&self.shared.script).push_back(reply);
    }

    /// Bodies of the requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Value> {
        self.received().into_iter().map(|request| request.body).collect()
    }

    /// The requests so far, with path and headers.
    pub fn received(&self) -> Vec<Received> {
        lock(&self.shared.received).clone()
    }

    /// Waits until `n_requests` have come; says whether they did in time.
    pub fn wait_for_requests(&self, n_requests: usize, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut received = lock(&self.shared.received);
        while received.len() < n_requests {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            received =
                self.shared.arrived.wait_timeout(received, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Replies that the client left before their end.
    pub fn n_hang_ups(&self) -> usize {
        self.shared.n_hang_ups.load(Ordering::SeqCst)
    }

    /// Connections that clients have opened.
    pub fn n_connections(&self) -> usize {
        lock(&self.shared.connections).len()
    }

    /// Replies of the script that nobody has asked for yet.
    pub fn n_left(&self) -> usize {
        lock(&self.shared.script).iter().filter(|reply| !reply.is_repeated).count()
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor; if it cannot be reached it is gone already.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for (stream, thread) in std::mem::take(&mut *lock(&self.shared.connections)) {
            // A connection that is closed already needs no closing.
            let _ = stream.shutdown(std::net::Shutdown::Both);
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(kept) = stream.try_clone() else { continue };
        let serving = Arc::clone(shared);
        let spawned = std::thread::Builder::new().spawn(move || {
            // Whatever broke the connection, the client sees it; there is nobody else to tell.
            let _ = serve(stream, &serving);
        });
        if let Ok(thread) = spawned {
            lock(&shared.connections).push((kept, thread));
        }
    }
}

/// Answers the requests of one connection until either side ends it.
fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(request) = read_request(&mut reader)? {
        let format = if request.path.ends_with("/messages") { Format::Messages } else { Format::Chat };
        let is_known = request.path.ends_with("/messages") || request.path.ends_with("/chat/completions");
        let text = request.body.to_string();
        let reply = if is_known { next_reply(shared, &text) } else { None };
        lock(&shared.received).push(request);
        shared.arrived.notify_all();
        let Some(reply) = reply else {
            let (status, reason) =
                if is_known { (500, "the script is exhausted") } else { (404, "no such path") };
            let body = serde_json::json!({"error": {"message": reason}}).to_string();
            write_status(&mut stream, status, &[], &body)?;
            continue;
        };
        match play(&mut stream, &reply, format, shared) {
            Ok(true) => {}
            Ok(false) => {
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return Ok(());
            }
            Err(error) => {
                shared.n_hang_ups.fetch_add(1, Ordering::SeqCst);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// The first reply that is meant for this request.
fn next_reply(shared: &Shared, request: &str) -> Option<Reply> {
    let mut script = lock(&shared.script);
    let index = script
        .iter()
        .position(|reply| reply.only_for.as_deref().is_none_or(|text| request.contains(text)))?;
    if script[index].is_repeated { script.get(index).cloned() } else { script.remove(index) }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Received>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or("").to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Received { path, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }))
}

/// Plays a reply; says whether the connection is good for another request.
fn play(stream: &mut TcpStream, reply: &Reply, format: Format, shared: &Shared) -> io::Result<bool> {
    match &reply.fault {
        Some(Fault::Status { status, headers, body }) => {
            // A status may have to wait as well.
            for part in &reply.parts {
                wait(stream, part, shared)?;
            }
            return write_status(stream, *status, headers, body).map(|()| true);
        }
        Some(Fault::NoAnswer) => return Ok(false),
        _ => {}
    }
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let mut writer = Writer::new(format, &shared.n_calls);
    send(stream, &writer.start(reply))?;
    for part in &reply.parts {
        wait(stream, part, shared)?;
        for event in writer.part(part) {
            send(stream, &event)?;
        }
    }
    match &reply.fault {
        Some(Fault::Silence) => return outlast(stream, shared).map(|()| false),
        Some(Fault::KeepAliveOnly) => loop {
            send(stream, ": keep-alive\n\n")?;
            idle(stream, POLL, shared)?;
        },
        Some(Fault::CutInEvent) => {
            send(stream, &writer.half_event())?;
            return Ok(false);
        }
        Some(Fault::CutInCharacter) => {
            let event = writer.part(&Part::Text("é".to_owned())).concat();
            let cut = event.find('é').map_or(event.len(), |start| start + 1);
            send_bytes(stream, &event.as_bytes()[..cut])?;
            return Ok(false);
        }
        Some(Fault::ErrorEvent(message)) => send(stream, &writer.error(message))?,
        Some(Fault::NoFinish) => {}
        _ => {
            send(stream, &writer.finish(reply))?;
            if reply.fault == Some(Fault::NoClosingEvent) {
                return outlast(stream, shared).map(|()| false);
            }
            send(stream, writer.closing())?;
        }
    }
    stream.write_all(b"0\r\n\r\n").map(|()| true)
}

fn wait(stream: &mut TcpStream, part: &Part, shared: &Shared) -> io::Result<()> {
    match part {
        Part::Hold(gate) => hold(stream, gate, shared),
        Part::Pause(duration) => idle(stream, *duration, shared),
        _ => Ok(()),
    }
}

fn hold(stream: &mut TcpStream, gate: &Gate, shared: &Shared) -> io::Result<()> {
    gate.reach();
    while !gate.wait_until_open(POLL) {
        check_alive(stream, shared)?;
    }
    Ok(())
}

fn idle(stream: &mut TcpStream, duration: Duration, shared: &Shared) -> io::Result<()> {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        std::thread::sleep(POLL.min(end.saturating_duration_since(Instant::now())));
        check_alive(stream, shared)?;
    }
    Ok(())
}

/// Stays open and silent until the client hangs up.
fn outlast(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    loop {
        idle(stream, POLL, shared)?;
    }
}

fn check_alive(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    if shared.is_stopping.load(Ordering::SeqCst) {
        return Err(io::Error::other("stopping"));
    }
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    match peeked {
        Ok(0) => Err(io::ErrorKind::ConnectionAborted.into()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}

fn send(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    send_bytes(stream, text.as_bytes())
}

/// One chunk of the chunked coding, in one write.
fn send_bytes(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    stream.write_all(&chunk)
}

fn write_status(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: &str,
) -> io::Result<()> {
    let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n{extra}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes())
}
