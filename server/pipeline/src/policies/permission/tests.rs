//! Mode × effect × escalation, each as the decision it gives.

use super::{PermissionOptions, PermissionPolicy};
use crate::policy::Policy;
use crate::tests::kit::{FakeTool, Kit, code, text};
use crate::tool::Effect;
use protocol::decision::{PermissionOutcome, PermissionRule};
use protocol::event::SessionEvent;
use protocol::mode::{Mode, SandboxMode};
use protocol::tool::Outcome;
use serde_json::{Value, json};
use services::shell::SandboxPolicy;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// What became of a call.
#[derive(Debug, PartialEq)]
enum End {
    /// It ran without a question, and could write this.
    Ran(SandboxMode, Vec<&'static str>),
    /// It was asked; this is what it could write after a yes, and the label of "always".
    Asked(SandboxMode, Vec<&'static str>, Option<&'static str>),
    /// It was refused without a question; the message holds this.
    Refused(&'static str),
}

use End::{Asked, Ran, Refused};
use SandboxMode::{DangerFullAccess, ReadOnly, WorkspaceWrite};

struct Setup {
    kit: Kit,
    seen: Arc<Mutex<Option<SandboxPolicy>>>,
}

fn setup(mode: Mode, tool: &str, effect: Effect, can_confine_commands: bool) -> Setup {
    let seen = Arc::new(Mutex::new(None));
    let noted = seen.clone();
    let tool = FakeTool::new(tool).with(|tool| tool.effect = effect).body(move |_, ctx| {
        *noted.lock().unwrap() = Some(ctx.sandbox());
        Box::pin(async { Ok(json!({})) })
    });
    let kit = Kit::new().tool(tool);
    kit.session.host.set_mode(mode);
    kit.session.world.files.link("/project/out", "/outside");
    kit.session.world.files.link("/var/work", "/project");
    let policy = PermissionPolicy::new(PermissionOptions {
        can_confine_commands,
        temporary_folders: vec![PathBuf::from("/tmp"), PathBuf::from("/var/tmp")],
    });
    assert_eq!(policy.name(), "permission");
    kit.registry().add_policy(None, Arc::new(policy)).unwrap().keep();
    Setup { kit, seen }
}

impl Setup {
    async fn run(&self, tool: &str, arguments: Value) -> Outcome {
        self.kit.pipeline.run(self.kit.call(tool, arguments)).await
    }

    async fn end(&self, tool: &str, arguments: Value, expected: &End) {
        self.kit.session.world.approval.answer(PermissionOutcome::AllowedOnce);
        let outcome = self.run(tool, arguments.clone()).await;
        let asked = self.kit.session.world.approval.asked();
        let what = format!("{tool} {arguments} in {:?}: {outcome:?}", self.kit.session.scope.host.mode());
        match expected {
            Refused(part) => {
                assert!(outcome.is_error() && text(&outcome).contains(part), "{what}");
                assert!(asked.is_empty(), "{what}");
                assert!(self.seen.lock().unwrap().is_none(), "{what}");
            }
            Ran(mode, roots) | Asked(mode, roots, _) => {
                let sandbox = self.seen.lock().unwrap().take().unwrap_or_else(|| panic!("{what}"));
                let roots: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
                assert_eq!((sandbox.mode, sandbox.writable_roots), (*mode, roots), "{what}");
                match expected {
                    Asked(_, _, label) => {
                        assert_eq!(asked.len(), 1, "{what}");
                        let rule = asked[0].rule.as_ref().map(|rule| rule.label.as_str());
                        assert_eq!(rule, *label, "{what}");
                    }
                    _ => assert!(asked.is_empty(), "{what}"),
                }
            }
        }
    }
}

fn writes(path: &str) -> Effect {
    Effect::WritesFile { path: path.to_owned() }
}

fn runs(command: &str) -> Effect {
    Effect::RunsCommand { command: command.to_owned(), is_shell: true }
}

#[tokio::test]
async fn each_mode_judges_each_effect() {
    let acts = || Effect::Acts { subject: "package x".into() };
    let workspace = || vec!["/project"];
    let cases: Vec<(Mode, &str, Effect, End)> = vec![
        (Mode::Plan, "read", Effect::None, Ran(ReadOnly, workspace())),
        (Mode::Plan, "edit", writes("src/a"), Refused("plan mode")),
        (Mode::Plan, "bash", runs("ls"), Ran(ReadOnly, workspace())),
        (Mode::Plan, "cordis_run", acts(), Refused("plan mode")),
        (Mode::Plan, "mcp", Effect::Unknown, Refused("plan mode")),
        (Mode::ReadOnly, "read", Effect::None, Ran(ReadOnly, workspace())),
        (
            Mode::ReadOnly,
            "edit",
            writes("src/a"),
            Asked(WorkspaceWrite, vec!["/project/src/a"], Some("edit in src")),
        ),
        (Mode::ReadOnly, "bash", runs("rm x"), Ran(ReadOnly, workspace())),
        (Mode::ReadOnly, "cordis_run", acts(), Asked(ReadOnly, workspace(), Some("package x"))),
        (Mode::ReadOnly, "mcp", Effect::Unknown, Asked(ReadOnly, workspace(), Some("mcp"))),
        (Mode::Ask, "read", Effect::None, Ran(WorkspaceWrite, workspace())),
        (
            Mode::Ask,
            "edit",
            writes("a"),
            Asked(WorkspaceWrite, vec!["/project", "/project/a"], Some("edit in this folder")),
        ),
        (
            Mode::Ask,
            "write",
            writes("/etc/hosts"),
            Asked(WorkspaceWrite, vec!["/project", "/etc/hosts"], Some("write in /etc")),
        ),
        (Mode::Ask, "bash", runs("cargo test"), Asked(WorkspaceWrite, workspace(), Some("cargo test"))),
        (
            Mode::Ask,
            "bash",
            runs("git status && rm x"),
            Asked(WorkspaceWrite, workspace(), Some("git status, rm")),
        ),
        (Mode::Ask, "bash", runs("eval x"), Asked(WorkspaceWrite, workspace(), None)),
        (Mode::Ask, "pwsh", runs("ls"), Asked(WorkspaceWrite, workspace(), None)),
        (
            Mode::Ask,
            "terminal_send",
            Effect::RunsCommand { command: "x".into(), is_shell: false },
            Asked(WorkspaceWrite, workspace(), None),
        ),
        (Mode::Ask, "cordis_run", acts(), Asked(WorkspaceWrite, workspace(), Some("package x"))),
        (Mode::Ask, "mcp", Effect::Unknown, Asked(WorkspaceWrite, workspace(), Some("mcp"))),
        (Mode::WorkspaceWrite, "edit", writes("src/a"), Ran(WorkspaceWrite, workspace())),
        (Mode::WorkspaceWrite, "edit", writes("/project/./b/../a"), Ran(WorkspaceWrite, workspace())),
        (Mode::WorkspaceWrite, "edit", writes("/tmp/a"), Ran(WorkspaceWrite, workspace())),
        (Mode::WorkspaceWrite, "edit", writes("/var/tmp/a"), Ran(WorkspaceWrite, workspace())),
        (Mode::WorkspaceWrite, "edit", writes("/var/work/a"), Ran(WorkspaceWrite, workspace())),
        (Mode::WorkspaceWrite, "bash", runs("rm x"), Ran(WorkspaceWrite, workspace())),
        (Mode::WorkspaceWrite, "cordis_run", acts(), Ran(WorkspaceWrite, workspace())),
        (Mode::WorkspaceWrite, "mcp", Effect::Unknown, Asked(WorkspaceWrite, workspace(), Some("mcp"))),
        (
            Mode::WorkspaceWrite,
            "edit",
            writes("../a"),
            Asked(WorkspaceWrite, vec!["/project", "/a"], Some("edit in /")),
        ),
        (
            // Another folder that begins with the same letters.
            Mode::WorkspaceWrite,
            "edit",
            writes("/workshop/a"),
            Asked(WorkspaceWrite, vec!["/project", "/workshop/a"], Some("edit in /workshop")),
        ),
        (
            // A link inside the session's folder that leads out of it.
            Mode::WorkspaceWrite,
            "edit",
            writes("out/a"),
            Asked(WorkspaceWrite, vec!["/project", "/outside/a"], Some("edit in /outside")),
        ),
        (Mode::WorkspaceWrite, "edit", writes(" "), Ran(WorkspaceWrite, workspace())),
        (Mode::Ask, "edit", writes(" "), Asked(WorkspaceWrite, workspace(), None)),
        (Mode::DangerFullAccess, "edit", writes("/etc/hosts"), Ran(DangerFullAccess, workspace())),
        (Mode::DangerFullAccess, "bash", runs("eval x"), Ran(DangerFullAccess, workspace())),
        (Mode::DangerFullAccess, "cordis_run", acts(), Ran(DangerFullAccess, workspace())),
        (Mode::DangerFullAccess, "mcp", Effect::Unknown, Ran(DangerFullAccess, workspace())),
    ];
    for (mode, tool, effect, expected) in cases {
        setup(mode, tool, effect, true).end(tool, json!({}), &expected).await;
    }
}

#[tokio::test]
async fn where_nothing_can_confine_commands_each_is_asked_for() {
    let unconfined = || Asked(DangerFullAccess, vec!["/project"], Some("ls with danger-full-access"));
    let cases = [
        (Mode::Plan, Refused("plan mode")),
        (Mode::ReadOnly, unconfined()),
        (Mode::Ask, unconfined()),
        (Mode::WorkspaceWrite, unconfined()),
        (Mode::DangerFullAccess, Ran(DangerFullAccess, vec!["/project"])),
    ];
    for (mode, expected) in cases {
        setup(mode, "bash", runs("ls"), false).end("bash", json!({}), &expected).await;
    }
}

#[tokio::test]
async fn a_wider_sandbox_is_asked_for_with_its_reason() {
    let ask = |mode: &str| json!({"sandbox_permissions": mode, "justification": " needs it "});
    let always = Some("cargo test with danger-full-access");
    let cases: Vec<(Mode, &str, Effect, Value, End)> = vec![
        (
            Mode::WorkspaceWrite,
            "bash",
            runs("cargo test"),
            ask("danger-full-access"),
            Asked(DangerFullAccess, vec!["/project"], always),
        ),
        (
            Mode::Ask,
            "bash",
            runs("cargo test"),
            ask("danger-full-access"),
            Asked(DangerFullAccess, vec!["/project"], always),
        ),
        (
            Mode::ReadOnly,
            "bash",
            runs("cargo test"),
            ask("workspace-write"),
            Asked(WorkspaceWrite, vec!["/project"], Some("cargo test with workspace-write")),
        ),
        (
            Mode::WorkspaceWrite,
            "write",
            writes("/etc/x"),
            ask("danger-full-access"),
            Asked(DangerFullAccess, vec!["/project"], None),
        ),
        (Mode::WorkspaceWrite, "bash", runs("x"), ask("workspace-write"), Refused("wider than")),
        (Mode::DangerFullAccess, "bash", runs("x"), ask("danger-full-access"), Refused("wider than")),
        (Mode::Plan, "bash", runs("x"), ask("danger-full-access"), Refused("plan mode")),
        (Mode::Plan, "write", writes("x"), ask("workspace-write"), Refused("plan mode")),
        (Mode::WorkspaceWrite, "bash", runs("x"), ask("read-only"), Refused("must be workspace-write or")),
        (
            Mode::WorkspaceWrite,
            "bash",
            runs("x"),
            json!({"sandbox_permissions": "danger-full-access"}),
            Refused("together"),
        ),
        (Mode::WorkspaceWrite, "edit", writes("x"), json!({"justification": "y"}), Refused("together")),
        (
            Mode::WorkspaceWrite,
            "bash",
            runs("x"),
            json!({"sandbox_permissions": "danger-full-access", "justification": "  "}),
            Refused("justification"),
        ),
        (
            Mode::WorkspaceWrite,
            "bash",
            runs("x"),
            json!({"sandbox_permissions": 1, "justification": "y"}),
            Refused("must be workspace-write or"),
        ),
        // Other tools do not know the fields.
        (
            Mode::WorkspaceWrite,
            "other",
            runs("x"),
            ask("danger-full-access"),
            Ran(WorkspaceWrite, vec!["/project"]),
        ),
        (
            Mode::WorkspaceWrite,
            "bash",
            runs("x"),
            json!({"sandbox_permissions": null, "justification": null}),
            Ran(WorkspaceWrite, vec!["/project"]),
        ),
    ];
    for (mode, tool, effect, arguments, expected) in cases {
        let setup = setup(mode, tool, effect, true);
        setup.end(tool, arguments, &expected).await;
        if let Asked(sandbox, ..) = expected {
            let reason = format!("escalate sandbox to {}: needs it", sandbox.id());
            assert_eq!(setup.kit.session.world.approval.asked()[0].reason.as_ref(), Some(&reason));
        }
    }
}

#[tokio::test]
async fn a_standing_permission_covers_the_same_and_nothing_else() {
    let setup = setup(Mode::Ask, "bash", runs("cargo test && git status"), true);
    setup.kit.session.world.approval.answer(PermissionOutcome::AllowedAlways);
    setup.run("bash", json!({})).await;
    assert_eq!(setup.kit.session.world.approval.asked().len(), 1);
    let rules: Vec<SessionEvent> = setup
        .kit
        .session
        .host
        .events()
        .into_iter()
        .filter(|event| matches!(event, SessionEvent::PermissionRule { .. }))
        .collect();
    let rule = PermissionRule {
        tool: "bash".into(),
        subjects: vec!["cargo test".into(), "git status".into()],
        label: "cargo test, git status".into(),
    };
    assert_eq!(rules, [SessionEvent::PermissionRule { rule }]);

    for (tool, effect, is_covered) in [
        ("bash", runs("cargo test --lib"), true),
        ("bash", runs("git status; cargo test | cargo test"), true),
        ("bash", runs("cargo build"), false),
        ("bash", runs("cargo test && rm x"), false),
        ("bash", runs("cargo test > file"), false),
        ("bash", runs("cargo test $(rm x)"), false),
        ("bash", runs("sudo cargo test"), false),
        ("pwsh", runs("cargo test"), false),
        ("terminal_open", runs("cargo test"), false),
    ] {
        let other = self::setup(Mode::Ask, tool, effect.clone(), true);
        for event in setup.kit.session.host.events() {
            crate::host::SessionHost::append(&*other.kit.session.host, event).unwrap();
        }
        other.run(tool, json!({})).await;
        let n_asked = other.kit.session.world.approval.asked().len();
        assert_eq!(n_asked, usize::from(!is_covered), "{tool} {effect:?}");
    }
}

#[tokio::test]
async fn a_rule_inside_the_sandbox_never_opens_it() {
    let setup = setup(Mode::Ask, "bash", runs("cargo test"), true);
    setup.kit.session.world.approval.answer(PermissionOutcome::AllowedAlways);
    setup.run("bash", json!({})).await;
    let wider = json!({"sandbox_permissions": "danger-full-access", "justification": "y"});
    for (answer, n_asked) in [(PermissionOutcome::AllowedAlways, 2), (PermissionOutcome::Rejected, 2)] {
        setup.kit.session.world.approval.answer(answer);
        let outcome = setup.run("bash", wider.clone()).await;
        assert!(!outcome.is_error());
        assert_eq!(setup.kit.session.world.approval.asked().len(), n_asked);
        let sandbox = setup.seen.lock().unwrap().take().unwrap();
        assert_eq!(sandbox.mode, DangerFullAccess, "the rule widens as its question did");
    }
}

#[tokio::test]
async fn a_folder_that_is_allowed_for_good_is_that_folder_only() {
    let first = setup(Mode::Ask, "edit", writes("/other/a"), true);
    first.kit.session.world.approval.answer(PermissionOutcome::AllowedAlways);
    first.run("edit", json!({})).await;
    for (mode, tool, path, n_asked) in [
        (Mode::Ask, "edit", "/other/b", 0),
        (Mode::WorkspaceWrite, "edit", "/other/b", 0),
        (Mode::Ask, "edit", "/other/deeper/b", 1),
        (Mode::Ask, "edit", "/otherwise/b", 1),
        (Mode::Ask, "write", "/other/b", 1),
    ] {
        let next = setup(mode, tool, writes(path), true);
        for event in first.kit.session.host.events() {
            crate::host::SessionHost::append(&*next.kit.session.host, event).unwrap();
        }
        next.run(tool, json!({})).await;
        assert_eq!(next.kit.session.world.approval.asked().len(), n_asked, "{tool} {path}");
        let sandbox = next.seen.lock().unwrap().take();
        assert_eq!(
            sandbox.is_some_and(|sandbox| sandbox.writable_roots.contains(&PathBuf::from(path))),
            n_asked == 0,
            "what a rule allows may be written"
        );
    }
}

#[tokio::test]
async fn a_mode_counts_from_the_next_check_on() {
    let setup = setup(Mode::DangerFullAccess, "edit", writes("a"), true);
    assert!(!setup.run("edit", json!({})).await.is_error());
    setup.kit.session.host.set_mode(Mode::Plan);
    let outcome = setup.run("edit", json!({})).await;
    assert_eq!((code(&outcome), text(&outcome).contains("plan mode")), (None, true));
}

#[tokio::test]
async fn plan_mode_that_begins_after_the_answer_takes_the_grant_back() {
    let setup = setup(Mode::Ask, "edit", writes("/other/a"), true);
    struct PlanNow(Arc<crate::fake::FakeHost>);
    #[async_trait::async_trait]
    impl Policy for PlanNow {
        fn name(&self) -> &str {
            "plan-now"
        }
        async fn execute(
            &self,
            dispatch: crate::policy::Dispatch<'_>,
            next: crate::policy::ExecuteNext<'_>,
        ) -> Result<crate::policy::Dispatched, protocol::tool::ToolFailure> {
            self.0.set_mode(Mode::Plan);
            next.run(dispatch.cancel).await
        }
    }
    let policy = PlanNow(setup.kit.session.host.clone());
    setup.kit.registry().add_policy(None, Arc::new(policy)).unwrap().keep();
    setup.kit.session.world.approval.answer(PermissionOutcome::AllowedOnce);
    setup.run("edit", json!({})).await;
    let sandbox = setup.seen.lock().unwrap().take().unwrap();
    assert_eq!((sandbox.mode, sandbox.writable_roots), (ReadOnly, vec![PathBuf::from("/project")]));
}

#[tokio::test]
async fn a_call_that_cannot_run_is_not_asked_for() {
    let setup = setup(Mode::Ask, "mcp", Effect::Unknown, true);
    assert_eq!(code(&setup.run("mcp", json!([])).await), Some("INVALID_ARGS"));
    assert_eq!(code(&setup.run("nobody", json!({})).await), Some("UNKNOWN_TOOL"));
    assert!(setup.kit.session.world.approval.asked().is_empty());
}

#[tokio::test]
async fn a_hook_can_tighten_what_the_mode_allows_but_not_loosen_it() {
    use crate::tests::kit::FakePolicy;
    use protocol::decision::PreDecision;
    let hook = |setup: &Setup, pre| {
        let policy = FakePolicy { name: "hook", pre: Some(Ok(pre)), ..FakePolicy::default() };
        setup.kit.registry().add_policy(None, Arc::new(policy)).unwrap().keep();
    };
    let asks =
        || PreDecision::Ask { reason: Some("hook".into()), display_reason: None, rule: None, grant: None };

    let allowed = setup(Mode::DangerFullAccess, "bash", runs("ls"), true);
    hook(&allowed, asks());
    allowed.run("bash", json!({})).await;
    assert_eq!(allowed.kit.session.world.approval.asked().len(), 1);

    let both = setup(Mode::Ask, "bash", runs("ls"), true);
    hook(&both, asks());
    both.run("bash", json!({})).await;
    let asked = both.kit.session.world.approval.asked();
    assert_eq!(asked[0].reason.as_deref(), Some("bash wants to run a command\n\nhook"));
    assert_eq!(asked[0].rule, None, "a standing permission could not silence the hook");

    for (mode, n_asked) in [(Mode::Ask, 1), (Mode::Plan, 0)] {
        let setup = setup(mode, "edit", writes("a"), true);
        hook(&setup, PreDecision::Allow);
        assert!(setup.run("edit", json!({})).await.is_error(), "nobody said yes");
        assert_eq!(setup.kit.session.world.approval.asked().len(), n_asked);
    }
}
