//! Keeps secrets of a server's specification out of what is said about it.

use services::mcp_servers::{McpServerSpec, McpTransport};

/// Shorter values are no secrets, and blotting them out would make messages unreadable.
const MIN_SECRET_LEN: usize = 6;

/// Longest reason that is told.
const MAX_REASON_CHARS: usize = 600;

/// What must not be said about one server.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// The values of a specification that may be secret.
    pub fn of(spec: &McpServerSpec) -> Self {
        let mut secrets: Vec<String> = match &spec.transport {
            McpTransport::Stdio { env, .. } => env.iter().map(|(_, value)| value.clone()).collect(),
            McpTransport::Http { url, headers } => {
                let mut secrets: Vec<String> = headers.iter().map(|(_, value)| value.clone()).collect();
                // `Bearer …` is said without its scheme too.
                secrets.extend(
                    headers.iter().filter_map(|(_, value)| Some(value.split_once(' ')?.1.to_owned())),
                );
                secrets.extend(url.split_once('?').map(|(_, query)| query.to_owned()));
                secrets.extend(user_info(url).map(str::to_owned));
                secrets
            }
            McpTransport::Unsupported { .. } => Vec::new(),
        };
        secrets.retain(|secret| secret.len() >= MIN_SECRET_LEN);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// A text without secrets, on one line, within a bound.
    pub fn blot(&self, text: &str) -> String {
        let mut blotted = text.to_owned();
        for secret in &self.0 {
            blotted = blotted.replace(secret, "***");
        }
        let line = blotted.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(MAX_REASON_CHARS) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

fn user_info(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    Some(authority.rsplit_once('@')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_blotted_out_wherever_they_stand() {
        let spec = McpServerSpec {
            name: "web".to_owned(),
            transport: McpTransport::Http {
                url: "https://me:password@host/mcp?key=abcdef".to_owned(),
                headers: vec![("Authorization".to_owned(), "Bearer token-1".to_owned())],
            },
        };
        let said = "token-1 refused\n at https://me:password@host/mcp?key=abcdef";
        assert_eq!(Secrets::of(&spec).blot(said), "*** refused at https://***@host/mcp?***");
    }
}
