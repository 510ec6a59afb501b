//! Session events: every record the durable log can hold.
//!
//! The log is append-only and the single source of truth: the model's history, the editor's replay, the plan, the
//! mode and the title are all derived from it. Source: `spec/runtime.md` §2, `spec/pipeline.md` §15.

use crate::decision::{PermissionOutcome, PermissionRule};
use crate::goal::GoalChange;
use crate::id::{CallId, JobId, MessageId, SessionId};
use crate::job::JobStatus;
use crate::message::{AssistantMessage, ToolResultMessage, UserMessage};
use crate::mode::Mode;
use crate::model::{ModelRef, Usage};
use crate::schedule::ScheduleChange;
use crate::tool::{ErrorInfo, ToolFailure, ToolSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// Version of the log format written today. Newer logs are refused.
pub const LOG_VERSION: u32 = 1;

/// First line of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionHeader {
    /// Format version, [`LOG_VERSION`].
    pub version: u32,
    /// The session.
    pub id: SessionId,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// The session's folder, absolute.
    pub cwd: PathBuf,
    /// Further folders the session works in, absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_directories: Vec<PathBuf>,
    /// The session this one was forked or delegated from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<SessionId>,
    /// How many delegations deep; 0 for a session a person started.
    #[serde(default)]
    pub delegation_depth: u32,
}

/// One line of a log after the header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Position in the log, from 0, without gaps.
    pub seq: u64,
    /// Milliseconds since the Unix epoch.
    pub time: i64,
    /// Whether a reader that does not know the type may skip the record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignorable: bool,
    /// What happened.
    #[serde(flatten)]
    pub event: SessionEvent,
}

/// What happened in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum SessionEvent {
    /// A turn began.
    #[serde(rename = "turn/start")]
    TurnStart {
        /// From 1.
        turn: u64,
    },
    /// A turn ended.
    #[serde(rename = "turn/end")]
    TurnEnd {
        /// Which.
        turn: u64,
        /// Why.
        reason: TurnEndReason,
    },
    /// A step began: one model request and its calls.
    #[serde(rename = "step/start")]
    StepStart {
        /// Turn it is in.
        turn: u64,
        /// From 1 within the turn.
        step: u64,
    },
    /// A step ended.
    #[serde(rename = "step/end")]
    StepEnd {
        /// Turn it is in.
        turn: u64,
        /// Which.
        step: u64,
    },
    /// A user-role message entered the conversation. Surface: append.
    #[serde(rename = "user/message")]
    UserMessage {
        /// The message.
        message: UserMessage,
    },
    /// The assistant message so far; replaced by the final one. Ignorable, lost without harm.
    #[serde(rename = "assistant/partial")]
    AssistantPartial {
        /// Turn it is in.
        turn: u64,
        /// Step it is in.
        step: u64,
        /// The message so far, without calls.
        message: AssistantMessage,
    },
    /// A message of the model. Surface: append.
    #[serde(rename = "assistant/message")]
    AssistantMessage {
        /// Turn it is in.
        turn: u64,
        /// Step it is in.
        step: u64,
        /// The message.
        message: AssistantMessage,
        /// Tokens of the request, when the provider told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Whether the stream was cut; such a message holds no calls.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    /// A call starts. Written before anything of it runs.
    #[serde(rename = "tool/call", rename_all = "camelCase")]
    ToolCall {
        /// Turn it is in.
        turn: u64,
        /// Step it is in.
        step: u64,
        /// The call.
        call_id: CallId,
        /// Name of the tool.
        name: String,
        /// Arguments as raw text.
        arguments: String,
    },
    /// A call ended. Surface: append.
    #[serde(rename = "tool/result")]
    ToolResult {
        /// Turn it is in.
        turn: u64,
        /// Step it is in.
        step: u64,
        /// What the model reads.
        message: ToolResultMessage,
        /// Why it failed, when it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ToolFailure>,
        /// Presentation data of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// A sub-call of a program starts.
    #[serde(rename = "tool/ptc-dispatch-start", rename_all = "camelCase")]
    PtcDispatchStart {
        /// The outermost call.
        root_call_id: CallId,
        /// The program's call.
        parent_call_id: CallId,
        /// `<parent>:ptc:<n>`.
        sub_call_id: CallId,
        /// Name of the tool.
        name: String,
        /// Arguments, parsed.
        arguments: Value,
    },
    /// A sub-call of a program ended.
    #[serde(rename = "tool/ptc-dispatch", rename_all = "camelCase")]
    PtcDispatch {
        /// The outermost call.
        root_call_id: CallId,
        /// The program's call.
        parent_call_id: CallId,
        /// `<parent>:ptc:<n>`.
        sub_call_id: CallId,
        /// Name of the tool.
        name: String,
        /// Arguments, parsed.
        arguments: Value,
        /// Its durable result.
        result: crate::tool::DurableResult,
    },
    /// A background job ended; shown in the card of the call that started it. Ignorable.
    #[serde(rename = "job/settled", rename_all = "camelCase")]
    JobSettled {
        /// The call that started it.
        call_id: CallId,
        /// The job.
        job_id: JobId,
        /// How it ended; settled.
        status: JobStatus,
        /// More about the end, for instance `exit code: 0`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// The end of its output, bounded, control sequences kept.
        tail: String,
        /// Bytes of output before `tail`.
        #[serde(default)]
        omitted_bytes: u64,
    },
    /// Who this child is. First event of a child's own part of its log. Ignorable.
    #[serde(rename = "subagent/descriptor", rename_all = "camelCase")]
    SubagentDescriptor {
        /// Whether it can be given further messages.
        continuable: bool,
        /// What it is, for people.
        label: String,
        /// Tools it may use, when it may not use all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow: Option<Vec<String>>,
        /// Tools it may not use.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deny: Option<Vec<String>>,
    },
    /// A child that works beside its parent has settled; shown in the card of the call that started it. Ignorable.
    #[serde(rename = "subagent/settled", rename_all = "camelCase")]
    SubagentSettled {
        /// The call that started it.
        call_id: CallId,
        /// The child.
        session: SessionId,
        /// How it ended, one word.
        status: String,
        /// The end of what it said last, bounded.
        text: String,
    },
    /// A workflow of this session starts. Ignorable, as all of its kind.
    #[serde(rename = "tool-workflow/run-start", rename_all = "camelCase")]
    WorkflowStart {
        /// The run.
        run_id: String,
        /// What it is called.
        name: String,
    },
    /// An agent of a workflow starts.
    #[serde(rename = "tool-workflow/agent-start", rename_all = "camelCase")]
    WorkflowAgentStart {
        /// The run.
        run_id: String,
        /// Which agent of it, from 1.
        seq: u64,
        /// What it does.
        label: String,
        /// The part of the workflow it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    /// An agent of a workflow ended.
    #[serde(rename = "tool-workflow/agent-end", rename_all = "camelCase")]
    WorkflowAgentEnd {
        /// The run.
        run_id: String,
        /// Which agent of it, from 1.
        seq: u64,
        /// How it ended.
        outcome: AgentOutcome,
        /// Its session; absent when it was never opened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child_id: Option<SessionId>,
    },
    /// A workflow ended, and all its agents before it.
    #[serde(rename = "tool-workflow/run-end", rename_all = "camelCase")]
    WorkflowEnd {
        /// The run.
        run_id: String,
        /// How it ended: `completed`, `error` or `cancelled`.
        stop_reason: String,
    },
    /// The system prompt or the tool list changed.
    #[serde(rename = "request/header")]
    RequestHeader {
        /// The system prompt.
        system: String,
        /// Tools in the order in which the model sees them.
        tools: Vec<ToolSchema>,
        /// Why it is written.
        reason: HeaderReason,
    },
    /// The model or its effort changed.
    #[serde(rename = "request/context", rename_all = "camelCase")]
    RequestContext {
        /// The model.
        model: ModelRef,
        /// Thinking effort; `None` is the model's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effort: Option<String>,
        /// Its context window in tokens, when known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    },
    /// Earlier history is left out of the requests to come; a summary stands for it. What the user saw stays.
    #[serde(rename = "compaction/summary", rename_all = "camelCase")]
    Compaction {
        /// The summary, from [`MessageSource::Checkpoint`](crate::message::MessageSource::Checkpoint).
        message: UserMessage,
        /// First message that is still sent as it was; `None` keeps nothing that was logged before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_kept: Option<MessageId>,
        /// Why.
        reason: CompactionReason,
        /// Tokens of the context before, roughly.
        tokens_before: u64,
        /// Tokens of the context after, roughly.
        tokens_after: u64,
    },
    /// Long tool results before a message are sent shortened from now on.
    #[serde(rename = "compaction/prune", rename_all = "camelCase")]
    CompactionPrune {
        /// First message whose results are left alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<MessageId>,
        /// Tokens of the context after, roughly.
        tokens_after: u64,
    },
    /// The whole todo list.
    #[serde(rename = "todo/write")]
    TodoWrite {
        /// Every item, in order.
        todos: Vec<TodoItem>,
    },
    /// The session's goal changed.
    #[serde(rename = "goal/change")]
    GoalChange(GoalChange),
    /// The session's reminders changed.
    #[serde(rename = "schedule/change")]
    ScheduleChange(ScheduleChange),
    /// Plan mode went on or off.
    #[serde(rename = "plan/mode")]
    PlanMode {
        /// Whether it is on.
        active: bool,
    },
    /// The permission mode under plan mode changed.
    #[serde(rename = "permission/preset")]
    PermissionPreset {
        /// The mode; never [`Mode::Plan`].
        preset: Mode,
    },
    /// A standing permission was given.
    #[serde(rename = "permission/rule")]
    PermissionRule {
        /// The rule.
        rule: PermissionRule,
    },
    /// A permission question was asked.
    #[serde(rename = "approval/asked", rename_all = "camelCase")]
    ApprovalAsked {
        /// Pairs with the decision.
        id: String,
        /// Name of the tool.
        tool_name: String,
        /// The call.
        call_id: CallId,
        /// Why it was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A permission question was settled.
    #[serde(rename = "approval/decided")]
    ApprovalDecided {
        /// Pairs with the question.
        id: String,
        /// How.
        outcome: PermissionOutcome,
    },
    /// A model request failed and will be tried again.
    #[serde(rename = "llm/retry", rename_all = "camelCase")]
    LlmRetry {
        /// From 1.
        attempt: u32,
        /// How long is waited first.
        delay_ms: u64,
        /// What failed, in the provider's words.
        message: String,
        /// Failure code, for instance `RATE_LIMIT`.
        code: String,
    },
    /// A slash command ran.
    #[serde(rename = "command/run", rename_all = "camelCase")]
    CommandRun {
        /// Pairs with its end.
        command_id: String,
        /// Name without the slash.
        name: String,
        /// Raw input after the name.
        args: String,
    },
    /// A slash command ended.
    #[serde(rename = "command/done", rename_all = "camelCase")]
    CommandDone {
        /// Pairs with its start.
        command_id: String,
        /// Whether it worked.
        ok: bool,
        /// What the user is told; shown as a message with this id.
        text: String,
        /// Identity of the message that shows it.
        message_id: MessageId,
    },
    /// Something the user is told outside any message of the model: an error, a limit, a retry.
    #[serde(rename = "session/notice", rename_all = "camelCase")]
    Notice {
        /// Markdown.
        text: String,
        /// Identity of the message that shows it.
        message_id: MessageId,
    },
    /// A hook of the user is about to run.
    #[serde(rename = "hook/invoked", rename_all = "camelCase")]
    HookInvoked {
        /// When it runs, for instance `PreToolUse`.
        point: String,
        /// Dialect of its settings.
        dialect: String,
        /// What it is for; `None` is all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        matcher: Option<String>,
        /// Names the hook in its file.
        handler_id: String,
    },
    /// A hook ended.
    #[serde(rename = "hook/result", rename_all = "camelCase")]
    HookResult {
        /// When it ran.
        point: String,
        /// Names the hook in its file.
        handler_id: String,
        /// `deny`, `ask`, `allow`, `stop`, `context`, `none`, or `error` for one that failed and decided nothing.
        decision: String,
        /// Its exit code, when it ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// The beginning of its errors.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr_summary: Option<String>,
        /// How long it took.
        duration_ms: u64,
    },
    /// The title changed; the latest wins.
    #[serde(rename = "session/title")]
    Title {
        /// At most 80 bytes.
        title: String,
        /// Who chose it.
        source: TitleSource,
    },
    /// Boundary between inherited and live history.
    #[serde(rename = "session/end-seed")]
    EndSeed {},
}

/// How an agent of a workflow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentOutcome {
    /// It gave what it was asked for.
    Completed,
    /// It did not.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl SessionEvent {
    /// Whether an older reader may skip it.
    pub fn ignorable(&self) -> bool {
        matches!(
            self,
            Self::AssistantPartial { .. }
                | Self::Notice { .. }
                | Self::PermissionRule { .. }
                | Self::JobSettled { .. }
                | Self::SubagentDescriptor { .. }
                | Self::SubagentSettled { .. }
                | Self::WorkflowStart { .. }
                | Self::WorkflowAgentStart { .. }
                | Self::WorkflowAgentEnd { .. }
                | Self::WorkflowEnd { .. }
                | Self::HookInvoked { .. }
                | Self::HookResult { .. }
        )
    }
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TurnEndReason {
    /// The model had said all.
    Completed,
    /// It was stopped.
    Aborted {
        /// By whom.
        cause: AbortCause,
    },
    /// A hook refused the prompt before any step.
    Blocked,
    /// The model refused to go on.
    Refused,
    /// Something failed that the turn could not survive.
    Error {
        /// What, for the user.
        message: String,
        /// Failure code.
        code: String,
    },
    /// An answer hit the output cap.
    MaxTokens,
    /// The configured number of steps was reached.
    MaxTurnRequests,
    /// Recovery only: the process ended in the middle.
    Interrupted,
}

/// Who stopped a turn. The first cause wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AbortCause {
    /// The person.
    User,
    /// The parent agent.
    Parent,
    /// A hook.
    Hook,
    /// The session or the process went away.
    Disposed,
}

/// Why history was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompactionReason {
    /// The context came close to the model's window.
    Threshold,
    /// The provider refused the request as too long.
    Overflow,
    /// The user asked for it.
    Command,
}

/// Why a request header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderReason {
    /// First request of the session.
    Initial,
    /// First request after the session was opened again.
    Resume,
    /// It differs from the last one.
    Change,
}

/// Who chose a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TitleSource {
    /// Cut from the first prompt.
    Fallback,
    /// Written by a model.
    Provider,
    /// Given by the user; nothing replaces it.
    User,
}

/// One item of the todo list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem {
    /// What is to be done, trimmed and not empty.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far a todo item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Completed,
}

/// What recovery writes for a call that no process finished.
pub fn interrupted_call(started: bool) -> ToolFailure {
    let (name, code, message) = if started {
        (
            "ToolOutcomeUnknownError",
            "TOOL_OUTCOME_UNKNOWN",
            "the process ended while this call ran; whether it took effect is unknown. Check before you run it again",
        )
    } else {
        (
            "ToolNotStartedError",
            "TOOL_NOT_STARTED",
            "the process ended before this call started; it had no effect and can be run again",
        )
    };
    ToolFailure {
        message: message.to_owned(),
        info: Some(ErrorInfo { name: name.to_owned(), code: code.to_owned(), reason: None }),
    }
}
