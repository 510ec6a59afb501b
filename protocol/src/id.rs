//! Newtypes for identities, so that a call id can never be passed as a session id.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps a text as this identity; the text is opaque.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The identity as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A session: one conversation in one folder, and its durable log.
    SessionId
);
id!(
    /// One tool call, unique within its session. Ours, never the provider's.
    CallId
);
id!(
    /// One message of a conversation; stable across loads.
    MessageId
);
id!(
    /// A terminal in which a command runs, ours or the client's.
    TerminalId
);
id!(
    /// A background job, `<kind>-<n>`.
    JobId
);
id!(
    /// A stored attachment (an image), content-addressed.
    AttachmentId
);
id!(
    /// A stored text, content-addressed: lower-case hex SHA-256 of its bytes.
    BlobHash
);
