//! MCP servers: programs and addresses that offer tools of their own.
//!
//! Called by the tools of the family `mcp` and by who opens a session; implemented by `provider-mcp`. What a server says
//! is passed on as it is, within bounds; how it looks to a model is decided by the tools. Source: `spec/runtime.md` §9;
//! product decisions, "MCP start".

use async_trait::async_trait;
use protocol::tool::ToolFailure;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How every name of a server's tool begins.
pub const PREFIX: &str = "mcp__";

/// Longest name of a tool that models take.
const MAX_NAME_LEN: usize = 64;

/// Hexadecimal digits that tell apart what became alike.
const HASH_LEN: usize = 12;

/// Opens the MCP servers of sessions.
pub trait McpServers: Send + Sync {
    /// A session without servers yet; those added later start in `cwd`. Starts nothing.
    fn open(&self, cwd: PathBuf) -> Arc<dyn McpSession>;
}

/// The MCP servers of one session. They end with it.
#[async_trait]
pub trait McpSession: Send + Sync {
    /// Starts to connect to servers, all at once, and returns at once. A server whose name is known already is left as
    /// it is.
    fn connect(&self, servers: Vec<McpServerSpec>);

    /// Waits until no server is connecting any more, at most for `budget`.
    async fn settle(&self, budget: Duration);

    /// Waits until no server's list of tools is being read again, at most for `budget`.
    async fn settle_lists(&self, budget: Duration);

    /// Every server in the order they were added, as it is now.
    fn servers(&self) -> Vec<McpServerStatus>;

    /// Checks the arguments against the tool's schema and calls it. On cancellation the server is told, and the call
    /// returns at once.
    ///
    /// # Errors
    /// The arguments do not fit, the server is not there, or it answered with a protocol error.
    async fn call(&self, call: McpCall, cancel: &CancellationToken) -> Result<McpResult, ToolFailure>;

    /// Ends every server and what it started; takes little more than a second at the most.
    async fn close(&self);
}

/// A server to connect to. Debug output leaves out what may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct McpServerSpec {
    /// Its name, as the user gave it.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// As a child process that speaks on its standard streams.
    Stdio {
        /// The program.
        command: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// Variables set on top of the scrubbed environment; passed exactly, of two of one name the later one.
        env: Vec<(String, String)>,
    },
    /// Streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// Headers of each request; passed exactly, of two of one name the later one.
        headers: Vec<(String, String)>,
    },
    /// A transport this program does not speak; such a server has failed at once.
    Unsupported {
        /// Its name, for instance `sse`.
        kind: String,
    },
}

impl fmt::Debug for McpServerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A server as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServerStatus {
    /// Its name.
    pub name: String,
    /// How far it is.
    pub state: McpState,
}

/// How far a server is.
#[derive(Clone, Debug, PartialEq)]
pub enum McpState {
    /// It is being connected for the first time.
    Connecting,
    /// Its tools are known. It may be away for a moment while it is connected again.
    Ready {
        /// Its tools, in its order; another `Arc` means that the list was read again.
        tools: Arc<Vec<McpToolInfo>>,
    },
    /// It is given up.
    Failed {
        /// Why, for user and model; secrets of the server's specification are blotted out.
        reason: String,
    },
}

/// What a server says of one of its tools.
#[derive(Clone, Debug, PartialEq)]
pub struct McpToolInfo {
    /// The name on the server.
    pub name: String,
    /// A title for people.
    pub title: Option<String>,
    /// What it does, in the server's words.
    pub description: Option<String>,
    /// Schema of the arguments, as the server sent it.
    pub input_schema: Map<String, Value>,
    /// Whether the server says that the tool changes nothing.
    pub only_reads: bool,
}

/// A call of a server's tool.
#[derive(Clone, Debug, PartialEq)]
pub struct McpCall {
    /// Name of the server.
    pub server: String,
    /// The tool's name on the server.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// What a call brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpResult {
    /// What the server wants shown, in its order.
    pub content: Vec<McpContent>,
    /// The result as a value, checked against the tool's output schema where it has one.
    pub structured: Option<Value>,
    /// Whether the server says that the call failed.
    pub is_error: bool,
}

/// A piece of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum McpContent {
    /// Text.
    Text(String),
    /// An image; the bytes are not verified.
    Image {
        /// Its bytes.
        bytes: Vec<u8>,
        /// What the server says it is.
        mime_type: String,
    },
    /// Where something is.
    Link {
        /// Its address.
        uri: String,
        /// Its name.
        name: String,
    },
    /// An embedded text.
    Resource {
        /// Its address.
        uri: String,
        /// The text.
        text: String,
    },
    /// Something that cannot be shown to a model; the text says what it was.
    Other(String),
}

/// The name a model calls a server's tool by: `mcp__<server>__<tool>`, of the letters and the length that models take.
/// A name that had to be changed ends in a hash of both parts, so that no two become one. Pure.
pub fn tool_name(server: &str, tool: &str) -> String {
    let plain = format!("{PREFIX}{server}__{tool}");
    let is_taken = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if plain.len() <= MAX_NAME_LEN && plain.chars().all(is_taken) {
        return plain;
    }
    let digest = Sha256::digest(serde_json::json!([server, tool]).to_string().as_bytes());
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let kept: String = plain
        .chars()
        .map(|letter| if is_taken(letter) { letter } else { '_' })
        .take(MAX_NAME_LEN - HASH_LEN - 1)
        .collect();
    format!("{kept}_{}", &hash[..HASH_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_when_models_take_them_and_told_apart_when_not() {
        assert_eq!(tool_name("files", "read_file"), "mcp__files__read_file");
        let changed = tool_name("my files", "read.file");
        assert!(changed.starts_with("mcp__my_files__read_file_"), "{changed}");
        assert_eq!(changed, tool_name("my files", "read.file"));
        let pairs = [("my files", "read_file"), ("my_files", "read file"), ("my.files", "read_file")];
        let names: std::collections::BTreeSet<String> = pairs.iter().map(|(s, t)| tool_name(s, t)).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        for long in [tool_name("s", &"x".repeat(200)), tool_name(&"é".repeat(40), "y")] {
            assert!(long.len() <= MAX_NAME_LEN, "{long}");
            assert!(
                long.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter)),
                "{long}"
            );
        }
    }

    #[test]
    fn debug_output_of_a_server_holds_no_secret() {
        let spec = McpServerSpec {
            name: "files".to_owned(),
            transport: McpTransport::Http {
                url: "http://host/?key=hush".to_owned(),
                headers: vec![("authorization".to_owned(), "hush".to_owned())],
            },
        };
        assert_eq!(format!("{spec:?}"), r#"McpServerSpec { name: "files", .. }"#);
    }
}
