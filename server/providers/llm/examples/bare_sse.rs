//! Baseline of the streaming benchmark: parses a recorded event stream and writes one update line a chunk, nothing else.
//!
//! `bare_sse FILE` prints the updates on stdout and its own CPU seconds on stderr.

use eventsource_stream::Eventsource;
use futures::StreamExt;
use std::io::Write;

fn main() {
    let path = std::env::args().nth(1).unwrap_or_default();
    let bytes = std::fs::read(path).unwrap_or_default();
    let before = cpu_seconds();
    let chunks: Vec<Result<Vec<u8>, std::io::Error>> =
        bytes.chunks(4096).map(|chunk| Ok(chunk.to_vec())).collect();
    let stdout = std::io::stdout();
    futures::executor::block_on(async {
        let mut events = futures::stream::iter(chunks).eventsource();
        while let Some(Ok(event)) = events.next().await {
            let Ok(chunk) = serde_json::from_str::<serde_json::Value>(&event.data) else { continue };
            let text = chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
            let update = serde_json::json!({
                "jsonrpc": "2.0", "method": "session/update",
                "params": { "sessionId": "s", "update": {
                    "sessionUpdate": "agent_message_chunk", "messageId": "m",
                    "content": { "type": "text", "text": text },
                } },
            });
            let mut out = stdout.lock();
            let _ = writeln!(out, "{update}");
            let _ = out.flush();
        }
    });
    eprintln!("{}", cpu_seconds() - before);
}

/// User and system time of this process, from the scheduler.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e9
}
