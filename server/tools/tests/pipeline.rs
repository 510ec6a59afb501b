//! The tools behind the standard policies: what is asked, what is widened, what the model reads at last.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

use pipeline::call::Call;
use pipeline::fake::FakeSession;
use pipeline::policies::permission::{PermissionOptions, PermissionPolicy};
use pipeline::policies::repeat::RepeatReminder;
use pipeline::policies::spill::SpillPolicy;
use pipeline::policies::timeout::TimeoutPolicy;
use pipeline::policy::Policy;
use pipeline::registry::{Registration, Registry};
use pipeline::run::Pipeline;
use protocol::card::{ExitState, FileDiff, ResultCard};
use protocol::decision::PermissionOutcome;
use protocol::id::CallId;
use protocol::mode::{Mode, SandboxMode};
use protocol::tool::Outcome;
use serde_json::{Value, json};
use services::fake::{World, shell_outcome};
use services::file_search::GlobFound;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tools::{ToolChoice, all_tools};

struct Run {
    session: FakeSession,
    pipeline: Pipeline,
}

impl Run {
    fn new(mode: Mode) -> Self {
        let registry = Registry::new();
        for tool in all_tools(&ToolChoice::default()) {
            registry.register(None, tool, Registration::default()).unwrap().keep();
        }
        let temporary_folders = vec![PathBuf::from("/tmp")];
        let policies: [Arc<dyn Policy>; 4] = [
            Arc::new(SpillPolicy::default()),
            Arc::new(RepeatReminder::default()),
            Arc::new(PermissionPolicy::new(PermissionOptions {
                can_confine_commands: true,
                temporary_folders,
            })),
            Arc::new(TimeoutPolicy),
        ];
        for policy in policies {
            registry.add_policy(None, policy).unwrap().keep();
        }
        let session = FakeSession::new(World::new());
        session.host.set_mode(mode);
        Self { session, pipeline: Pipeline::new(registry) }
    }

    async fn call(&self, name: &str, arguments: Value) -> Outcome {
        let call = Call {
            call_id: CallId::new("call-1"),
            root_call_id: None,
            parent: None,
            name: name.to_owned(),
            arguments,
            session: self.session.scope.clone(),
            scope: None,
            tool_set: None,
            cancel: CancellationToken::new(),
        };
        self.pipeline.run(call).await
    }
}

fn text(outcome: &Outcome) -> String {
    outcome.durable().single_text().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_denied_edit_leaves_the_file_alone_and_an_allowed_one_was_shown_whole() {
    let run = Run::new(Mode::Ask);
    run.session.world.files.put("a", "1\n2\n");
    assert!(!run.call("read", json!({"file_path": "a"})).await.is_error());
    let edit = json!({"file_path": "a", "old_string": "2", "new_string": "two"});
    run.session.world.approval.answer(PermissionOutcome::Rejected);
    assert!(run.call("edit", edit.clone()).await.is_error());
    assert_eq!(run.session.world.files.text("a").as_deref(), Some("1\n2\n"));
    run.session.world.approval.answer(PermissionOutcome::AllowedOnce);
    assert!(!run.call("edit", edit).await.is_error());
    assert_eq!(run.session.world.files.text("a").as_deref(), Some("1\ntwo\n"));
    let whole =
        FileDiff { path: "/project/a".into(), old_text: Some("1\n2\n".into()), new_text: "1\ntwo\n".into() };
    let asked = run.session.world.approval.asked();
    assert_eq!(
        asked.iter().map(|request| request.preview.diffs.clone()).collect::<Vec<_>>(),
        [vec![whole.clone()], vec![whole]]
    );
}

#[tokio::test]
async fn an_allowed_write_outside_the_workspace_reaches_its_target() {
    let run = Run::new(Mode::WorkspaceWrite);
    let write = json!({"file_path": "/etc/x", "content": "1"});
    run.session.world.approval.answer(PermissionOutcome::AllowedOnce);
    let outcome = run.call("write", write).await;
    assert!(!outcome.is_error(), "{}", text(&outcome));
    assert_eq!(run.session.world.files.text("/etc/x").as_deref(), Some("1"));
}

#[tokio::test]
async fn a_command_escalates_only_when_the_user_allows_it() {
    let run = Run::new(Mode::WorkspaceWrite);
    let escalating = json!({
        "command": "touch /etc/x", "description": "Touch it",
        "sandbox_permissions": "danger-full-access", "justification": "the task needs it",
    });
    run.session.world.approval.answer(PermissionOutcome::Rejected);
    assert!(run.call("bash", escalating.clone()).await.is_error());
    assert_eq!(run.session.world.shell.requests().len(), 0);
    run.session.world.approval.answer(PermissionOutcome::AllowedOnce);
    assert!(!run.call("bash", escalating).await.is_error());
    let requests = run.session.world.shell.requests();
    assert_eq!(requests[0].sandbox.mode, SandboxMode::DangerFullAccess);
    assert!(!run.call("bash", json!({"command": "ls", "description": "List"})).await.is_error());
    assert_eq!(run.session.world.shell.requests()[1].sandbox.mode, SandboxMode::WorkspaceWrite);
}

#[tokio::test]
async fn plan_mode_refuses_a_write() {
    let run = Run::new(Mode::Plan);
    let outcome = run.call("write", json!({"file_path": "a", "content": "1"})).await;
    assert!(outcome.is_error());
    assert_eq!(run.session.world.files.text("a"), None);
}

#[tokio::test]
async fn a_long_list_names_the_file_it_was_saved_in() {
    let run = Run::new(Mode::WorkspaceWrite);
    let paths = (0..101).map(|n| PathBuf::from(format!("/project/f{n}"))).collect();
    run.session.world.search.glob_result(Ok(GlobFound { paths, ..GlobFound::default() }));
    let outcome = run.call("glob", json!({"pattern": "*"})).await;
    assert!(text(&outcome).contains("Full list: /spill/session-1/glob-results.txt"), "{}", text(&outcome));
}

#[tokio::test]
async fn a_failed_command_with_a_spilled_output_is_shown_as_failed() {
    let run = Run::new(Mode::WorkspaceWrite);
    run.session.world.shell.outcome(Ok(shell_outcome(&"line\n".repeat(12_000), 3)));
    let arguments = json!({"command": "make", "description": "Build"});
    let outcome = run.call("bash", arguments.clone()).await;
    assert!(text(&outcome).len() <= 50_000 && text(&outcome).contains("[exit code: 3]"));
    let tools = all_tools(&ToolChoice::default());
    let bash = tools.iter().find(|tool| tool.schema().name == "bash").unwrap();
    let Some(ResultCard::Terminal(card)) = bash.present_result(&arguments, &outcome.durable()) else {
        panic!("no terminal")
    };
    assert_eq!(card.exit, ExitState::Code(3));
}
