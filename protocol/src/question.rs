//! Questions the model puts to the person, and their answers.
//!
//! Asked by the tools that wait for a person, carried by the question service, shown by the presenters. Nothing here
//! checks that answers match questions: that is the provider's part. Source: `spec/tools-agentic.md` §1 and §2.2.

use serde::{Deserialize, Serialize};

/// One question, with choices, with room for free text, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Key chosen by the caller; the answer repeats it.
    pub id: String,
    /// The question itself.
    pub question: String,
    /// Short heading; `None` when the caller gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The choices, a recommended one first; empty asks for free text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<QuestionOption>,
    /// Whether several choices may be taken.
    #[serde(default)]
    pub multi_select: bool,
    /// Markdown that belongs to the question, for instance a plan under review; `None` when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Label of the one choice that means yes; every other choice then means no. `None` for an open question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approve: Option<String>,
}

/// One choice of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionOption {
    /// What is chosen, shown and returned unchanged.
    pub label: String,
    /// What it would mean; `None` when the label says it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The answer to one question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Key of the question.
    pub id: String,
    /// Labels of the choices taken, exactly as offered.
    pub selected: Vec<String>,
    /// Free text, possibly beside choices; `None` when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<String>,
}
