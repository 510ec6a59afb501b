//! The system prompt, assembled from sections, and the context that is injected as messages.
//!
//! Sections are joined by ascending order; each tool brings its own. Dynamic facts (sandbox, questions, date) are not
//! in the prompt but in one user-role snapshot, so that switching a mode keeps the prefix cacheable.
//! Source: `spec/runtime.md` §5.

pub(crate) mod instructions;
pub(crate) mod skills;

use pipeline::tool::{PromptSection, Tool};
use protocol::mode::{Mode, SandboxMode};
use std::path::Path;
use std::sync::Arc;

/// Name under which the runtime-context snapshot is logged.
pub(crate) const RUNTIME_CONTEXT: &str = "runtime-context";

/// The system prompt for this set of tools; `programs` are the sections about calling them from programs.
pub(crate) fn system_prompt(
    tools: &[Arc<dyn Tool>],
    programs: Vec<PromptSection>,
    cwd: &Path,
    roots: &[std::path::PathBuf],
    plan: bool,
) -> String {
    let mut sections = vec![identity(cwd, roots), conduct()];
    if plan {
        sections.push(plan_policy());
    }
    if tools.iter().any(|tool| tool.schema().name == "read") {
        sections.push(file_references());
    }
    sections.extend(programs);
    sections.extend(tools.iter().filter_map(|tool| tool.section()));
    // Stable: sections of equal order keep the order of the tools.
    sections.sort_by_key(|section| section.order_tenths);
    let texts: Vec<String> =
        sections.into_iter().map(|section| section.text).filter(|text| !text.trim().is_empty()).collect();
    texts.join("\n\n")
}

fn section(name: &str, order_tenths: i32, text: String) -> PromptSection {
    PromptSection { name: name.to_owned(), order_tenths, text }
}

fn identity(cwd: &Path, roots: &[std::path::PathBuf]) -> PromptSection {
    let mut text = format!(
        "You are Followspot, a coding agent that works inside the user's editor. The working directory is {}. \
         The user watches every tool call as a card: a diff, a terminal, a list of matches, a place in a file.",
        cwd.display()
    );
    let further: Vec<String> =
        roots.iter().filter(|root| *root != cwd).map(|root| root.display().to_string()).collect();
    if !further.is_empty() {
        text.push_str(&format!(" You may also work in: {}.", further.join(", ")));
    }
    section("identity", -1000, text)
}

fn conduct() -> PromptSection {
    section(
        "conduct",
        0,
        "Do what was asked, and finish it. Look before you change: read the code around a change, follow its \
         conventions, and keep the change as small as the task allows. After a change, check it with the project's \
         own build or tests when they are at hand. Say what you did and what you did not, in a few plain sentences; \
         never claim a result you have not seen. When a tool fails, read the error: it says what to do next. Do not \
         repeat a failing call unchanged. Ask the user only what you cannot find out yourself. Never print or store \
         secrets. Do not commit, push or publish unless the user asked for it."
            .to_owned(),
    )
}

fn file_references() -> PromptSection {
    section(
        "context:file-reference",
        990,
        "A prompt may point at files as `[name](file:///path#L10:20)`; the part after `#L` is a 1-based range of \
         lines. Such a reference holds no content: use `read` with that path when you need it. An embedded file comes \
         with its text and needs no reading unless it may have changed."
            .to_owned(),
    )
}

fn plan_policy() -> PromptSection {
    section(
        "plan:policy",
        500,
        "Plan mode is on. Explore and plan; change nothing until the user leaves plan mode. A request to implement \
         something is a request to plan it, and agreement in conversation is not approval. Use only calls that read; \
         the tool list stays the same, and these rules come before the tools' own. Do not use todo_write for the \
         planning. Ask only for decisions that looking cannot settle. A plan is ready when someone else could carry \
         it out without deciding anything: the goal and how success is checked, the changes grouped by part, \
         interfaces, schemas and data flow, edge cases, tests, and what you assumed. Then present it with exit_plan_mode, as the only and last call of \
         your answer; if the user wants to keep planning, revise it and present it again. If it cannot be reviewed, \
         stay in plan mode and ask the user to switch the mode."
            .to_owned(),
    )
}

/// The snapshot of dynamic facts: what may be written, who is asked, how to ask for more.
pub(crate) fn runtime_context(mode: Mode, network: bool, date: &str, is_child: bool) -> String {
    let sandbox = match mode.sandbox() {
        SandboxMode::ReadOnly => "read-only: commands and file tools cannot write anywhere",
        SandboxMode::WorkspaceWrite => {
            "workspace-write: commands and file tools can write in the working directories and in temporary folders, nowhere else"
        }
        SandboxMode::DangerFullAccess => "danger-full-access: nothing is confined",
    };
    let approval = match mode {
        Mode::Plan => "nothing can be widened while plan mode is on",
        Mode::Ask => "the user is asked before every change of a file and every command",
        Mode::DangerFullAccess => "nothing is asked",
        Mode::ReadOnly | Mode::WorkspaceWrite => {
            "the user is asked before a file tool writes outside the sandbox"
        }
    };
    let mut text = format!(
        "Runtime context. This replaces every earlier one.\nDate: {date}.\nSandbox: {sandbox}.\nApproval: {approval}."
    );
    if !network {
        text.push_str("\nNetwork: commands cannot open connections.");
    }
    if matches!(mode, Mode::ReadOnly | Mode::Ask | Mode::WorkspaceWrite) {
        text.push_str(
            "\nIf bash, write or edit was refused by the sandbox and the work needs it, repeat that exact call once with \
             `sandbox_permissions` (\"workspace-write\" or \"danger-full-access\", wider than the present sandbox) and \
             `justification` (one sentence for the user); the user is asked.",
        );
    }
    if is_child {
        text.push_str(
            "\nDelegation: you work for another agent. Your permissions are its own and cannot be widened by you; do not repeat \
             what was denied, and say in your answer what you could not do. You cannot ask the user. Your last message is your \
             result: make it complete, since the other agent sees nothing else of your work.",
        );
    }
    text
}
