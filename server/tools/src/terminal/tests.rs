//! What the six tools tell the model.

use crate::testing::Bench;
use serde_json::json;

#[tokio::test]
async fn a_terminal_is_opened_used_and_closed() {
    let bench = Bench::new();
    let id = json!({"sessionId": "pty-1"});
    let cases = [
        ("terminal_list", json!({}), "(no terminal sessions)"),
        (
            "terminal_open",
            json!({"type": "shell", "name": "w"}),
            "opened terminal pty-1 (w) [type: shell]\n(no startup output)",
        ),
        ("terminal_list", json!({}), "pty-1 (w) [shell] running pid=7"),
        ("terminal_read", id.clone(), "(no retained output)\n[lines: 0-0 of 0]"),
        (
            "terminal_send",
            json!({"sessionId": "pty-1", "text": ""}),
            "(no new output)\n[wait: stdin_read]\n[session: running]",
        ),
        (
            "terminal_send",
            json!({"sessionId": "pty-1", "text": "ls"}),
            "ls\n[wait: stdin_read]\n[session: running]",
        ),
        ("terminal_read", json!({"sessionId": "pty-1", "count": 1}), "ls\n[lines: 1-2 of 2]"),
        (
            "terminal_read",
            json!({"sessionId": "pty-1", "offset": 9}),
            "(no retained output)\n[lines: 0-0 of 2]",
        ),
        (
            "terminal_signal",
            json!({"sessionId": "pty-1", "signal": "SIGINT"}),
            "sent SIGINT to process group 7",
        ),
        (
            "terminal_send",
            json!({"sessionId": "pty-1", "text": "make", "run_in_background": true}),
            "started background job pty-send-1",
        ),
        (
            "job_output",
            json!({"job_id": "pty-send-1", "wait": true}),
            "make\n[status: completed, wait: stdin_read]",
        ),
        ("terminal_close", id.clone(), "closed terminal pty-1"),
    ];
    for (name, arguments, expected) in cases {
        assert_eq!(bench.call(name, arguments).await.text(), expected, "{name}");
    }
    assert_eq!(bench.call("terminal_read", id).await.code(), "NO_SESSION");
}
