//! Layers, shadowing, restrictions, conditions.

use super::*;
use crate::tests::kit::{FakeTool, Journal};
use protocol::id::{CallId, SessionId};
use protocol::model::ModelRef;
use protocol::tool::ToolFailure;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn tool(name: &str) -> Arc<dyn Tool> {
    Arc::new(FakeTool::new(name))
}

fn register(registry: &Registry, scope: Option<ScopeKey>, name: &str) -> Disposer {
    registry.register(scope, tool(name), Registration::default()).unwrap()
}

fn with_tools(names: &[&str]) -> Registry {
    let registry = Registry::new();
    for name in names {
        register(&registry, None, name).keep();
    }
    registry
}

fn names(registry: &Registry, scope: Option<ScopeKey>) -> Vec<String> {
    registry.definitions(scope, None).iter().map(|tool| tool.schema().name.clone()).collect()
}

fn same(left: &Option<Arc<dyn Tool>>, right: &Arc<dyn Tool>) -> bool {
    left.as_ref().is_some_and(|left| Arc::ptr_eq(left, right))
}

#[test]
fn a_scoped_tool_shadows_a_global_one_in_either_order() {
    for scoped_first in [true, false] {
        let registry = with_tools(&["first"]);
        let scope = registry.open_scope(None);
        let (global, scoped) = (tool("a"), tool("a"));
        let mut layers = [(None, global.clone()), (Some(scope.key()), scoped.clone())];
        if scoped_first {
            layers.reverse();
        }
        for (layer, tool) in layers {
            registry.register(layer, tool, Registration::default()).unwrap().keep();
        }
        let key = Some(scope.key());
        assert!(same(&registry.get("a", key, None), &scoped));
        assert!(same(&registry.get("a", None, None), &global));
        assert_eq!(names(&registry, key), ["first", "a"], "a shadowing tool keeps the place");
        drop(scope);
        assert!(same(&registry.get("a", None, None), &global));
        assert!(same(&registry.get("a", key, None), &global), "a scope that is gone sees the deployment's");
    }
}

#[test]
fn duplicates_name_the_layer_and_the_way_out() {
    let registry = with_tools(&["a"]);
    let scope = registry.open_scope(None);
    register(&registry, Some(scope.key()), "a").keep();
    let error = |scope| registry.register(scope, tool("a"), Registration::default()).err().unwrap();
    assert_eq!(error(None), RegistryError::DuplicateGlobal { name: "a".into() });
    assert!(error(None).to_string().contains("register it in a scope"));
    assert_eq!(error(Some(scope.key())), RegistryError::DuplicateInScope { name: "a".into() });
    assert!(error(Some(scope.key())).to_string().contains("in this scope"));
}

#[test]
fn what_breaks_the_contract_is_not_registered() {
    let registry = Registry::new();
    let scope = registry.open_scope(None);
    let bad_schema = FakeTool::new("t").output(json!({"type": "string", "minLength": 1}));
    let no_time = FakeTool::new("t").with(|tool| tool.timeout = Some(Duration::ZERO));
    let error = |scope, tool: FakeTool| {
        registry.register(scope, Arc::new(tool), Registration::default()).err().unwrap()
    };
    assert!(matches!(error(None, bad_schema), RegistryError::OutputSchema { .. }));
    assert_eq!(error(None, no_time), RegistryError::Timeout { name: "t".into() });
    assert_eq!(error(None, FakeTool::new("run_code")), RegistryError::Reserved);
    assert_eq!(error(Some(scope.key()), FakeTool::new("run_code")), RegistryError::Reserved);
    assert!(names(&registry, None).is_empty());
}

#[test]
fn restrictions_intersect_and_are_lifted_one_by_one() {
    let registry = with_tools(&["a", "b"]);
    let scope = registry.open_scope(None);
    let key = Some(scope.key());
    register(&registry, key, "c").keep();
    let mut allow = registry.restrict(key, Restriction::allow(["a"])).unwrap();
    assert_eq!(names(&registry, key), ["a", "c"]);
    let deny = registry.restrict(key, Restriction::deny(["a"])).unwrap();
    assert_eq!(names(&registry, key), ["c"]);
    assert!(registry.get("a", key, None).is_none() && registry.executable("b", key, None).is_none());
    allow.dispose();
    allow.dispose();
    assert_eq!(names(&registry, key), ["b", "c"]);
    register(&registry, None, "later").keep();
    assert_eq!(names(&registry, key), ["b", "later", "c"], "a deny list lets later tools through");
    drop(deny);
    assert_eq!(names(&registry, key), ["a", "b", "later", "c"]);
    let _none = registry.restrict(key, Restriction::allow(Vec::<String>::new())).unwrap();
    assert_eq!(names(&registry, key), ["c"], "an empty allow list hides everything inherited");
    assert_eq!(names(&registry, None), ["a", "b", "later"]);
}

#[test]
fn a_restriction_needs_a_scope_a_list_and_names_that_are_inherited() {
    let registry = with_tools(&["b", "a"]);
    let scope = registry.open_scope(None);
    let key = Some(scope.key());
    register(&registry, key, "own").keep();
    let error = |scope, restriction| registry.restrict(scope, restriction).err().unwrap();
    assert_eq!(error(None, Restriction::allow(["a"])), RegistryError::Unscoped);
    assert_eq!(error(key, Restriction::default()), RegistryError::EmptyRestriction);
    assert_eq!(error(key, Restriction::deny(["run_code"])), RegistryError::Reserved);
    for unknown in ["own", "nowhere"] {
        assert_eq!(
            error(key, Restriction::allow(["a", unknown])),
            RegistryError::UnknownNames {
                unknown: vec![unknown.into()],
                known: vec!["a".into(), "b".into()]
            }
        );
    }
    assert_eq!(names(&registry, key), ["b", "a", "own"]);
}

#[test]
fn an_ancestors_restriction_reaches_a_child_which_keeps_its_own_tools() {
    let registry = with_tools(&["a", "b"]);
    let parent = registry.open_scope(None);
    let child = registry.open_scope(Some(parent.key()));
    register(&registry, Some(parent.key()), "preset").keep();
    register(&registry, Some(child.key()), "report").keep();
    let _restriction = registry.restrict(Some(parent.key()), Restriction::allow(["a"])).unwrap();
    assert_eq!(names(&registry, Some(parent.key())), ["a", "preset"]);
    assert_eq!(names(&registry, Some(child.key())), ["a", "report"]);
}

#[test]
fn only_name_description_and_parameters_reach_a_model_and_as_copies() {
    let registry = with_tools(&["a"]);
    let mut schemas = registry.schemas(None, None).unwrap();
    let shown = serde_json::to_value(&schemas[0]).unwrap();
    let keys: Vec<&String> = shown.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "description", "parameters"]);
    schemas[0].parameters["type"] = json!("changed");
    assert_eq!(registry.schemas(None, None).unwrap()[0].parameters["type"], "object");
}

#[test]
fn parameters_that_are_no_lossless_json_fail_the_projection_by_name() {
    let registry = Registry::new();
    let bad = FakeTool::new("bad").parameters(json!({"default": -0.0}));
    registry.register(None, Arc::new(bad), Registration::default()).unwrap().keep();
    assert!(registry.schemas(None, None).unwrap_err().message.contains("bad"));
}

#[test]
fn the_program_tool_is_shown_by_code_mode_and_survives_every_filter() {
    let registry = with_tools(&["a"]);
    let scope = registry.open_scope(None);
    let key = Some(scope.key());
    let shown = |scope| -> Vec<String> {
        registry.schemas(scope, None).unwrap().into_iter().map(|schema| schema.name).collect()
    };
    let provided = registry.provide_run_code(tool("run_code")).unwrap();
    assert!(registry.provide_run_code(tool("run_code")).is_err());
    assert_eq!(shown(None), ["a"]);
    assert!(registry.get("run_code", None, None).is_none());
    registry.set_code_mode(None, CodeMode::Both).unwrap().keep();
    assert_eq!(shown(None), ["a", "run_code"]);
    let nearer = registry.set_code_mode(key, CodeMode::Code).unwrap();
    assert!(registry.set_code_mode(key, CodeMode::Code).is_err(), "one choice a layer");
    let _restriction = registry.restrict(key, Restriction::allow(Vec::<String>::new())).unwrap();
    assert_eq!(shown(key), ["run_code"]);
    assert!(registry.executable("run_code", key, None).is_some());
    assert_eq!(registry.model_input(key, None).unwrap().known_names, ["a", "run_code"]);
    drop(nearer);
    drop(provided);
    assert!(registry.schemas(key, None).is_err(), "code mode without anything that runs programs");
}

#[test]
fn changes_are_announced_and_guards_are_not() {
    let registry = Registry::new();
    let changes = registry.subscribe();
    let mut expect = {
        let mut last = 0;
        move |grows: bool, what: &str| {
            let now = *changes.borrow();
            assert_eq!(now > last, grows, "{what}");
            last = now;
        }
    };
    let disposer = register(&registry, None, "a");
    expect(true, "register");
    let scope = registry.open_scope(None);
    let restriction = registry.restrict(Some(scope.key()), Restriction::deny(["a"])).unwrap();
    expect(true, "restrict");
    drop(registry.guard(None, Arc::new(|_| None)).unwrap());
    expect(false, "guard");
    drop(restriction);
    expect(true, "lift");
    drop(disposer);
    expect(true, "unregister");
    drop(scope);
    expect(true, "a scope that goes");
}

#[test]
fn guards_speak_from_the_outermost_layer_inwards_and_hear_late_comers() {
    let registry = Registry::new();
    let parent = registry.open_scope(None);
    let child = registry.open_scope(Some(parent.key()));
    let journal = Journal::default();
    let noting = |name: &'static str| -> Arc<Guard> {
        let journal = journal.clone();
        Arc::new(move |_| {
            journal.note(name);
            None
        })
    };
    registry.guard(Some(child.key()), noting("child")).unwrap().keep();
    registry.guard(Some(parent.key()), noting("parent")).unwrap().keep();
    registry.guard(None, noting("global")).unwrap().keep();
    let (late, inner) = (noting("late"), registry.clone());
    registry
        .guard(
            None,
            Arc::new(move |_| {
                inner.guard(None, late.clone()).unwrap().keep();
                None
            }),
        )
        .unwrap()
        .keep();
    let execution = Execution {
        session_id: SessionId::new("s"),
        call_id: CallId::new("c"),
        root_call_id: CallId::new("c"),
        name: "t".into(),
        arguments: Arc::new(json!({})),
        parent: None,
    };
    assert_eq!(registry.check_guards(Some(child.key()), &execution), None);
    assert_eq!(journal.entries(), ["global", "late", "parent", "child"]);
}

#[test]
fn a_tool_may_come_back_to_the_registry_while_it_goes() {
    struct Last(Registry, FakeTool);
    impl Drop for Last {
        fn drop(&mut self) {
            assert!(self.0.get("t", None, None).is_none());
        }
    }
    #[async_trait::async_trait]
    impl Tool for Last {
        fn schema(&self) -> &protocol::tool::ToolSchema {
            self.1.schema()
        }
        fn output_schema(&self) -> &Value {
            self.1.output_schema()
        }
        async fn execute(
            &self,
            _arguments: &Value,
            _ctx: &crate::context::ToolContext,
        ) -> Result<Value, ToolFailure> {
            Ok(Value::Null)
        }
        fn render(&self, _: &Value, _: &Value) -> Result<Vec<protocol::content::ContentBlock>, String> {
            Ok(Vec::new())
        }
    }
    let registry = Registry::new();
    let last = Last(registry.clone(), FakeTool::new("t"));
    drop(registry.register(None, Arc::new(last), Registration::default()).unwrap());
}

struct When(fn() -> Result<bool, ToolFailure>);

#[async_trait::async_trait]
impl Condition for When {
    async fn admits(&self, _context: &ActivationContext) -> Result<bool, ToolFailure> {
        tokio::task::yield_now().await;
        (self.0)()
    }
}

fn activation() -> ActivationContext {
    ActivationContext {
        session_id: SessionId::new("s"),
        model: ModelRef { provider: "p".into(), model: "m".into() },
        effort: None,
        cancel: CancellationToken::new(),
    }
}

fn register_when(registry: &Registry, name: &str, when: fn() -> Result<bool, ToolFailure>) -> Disposer {
    let registration = Registration { when: Some(Arc::new(When(when))) };
    registry.register(None, tool(name), registration).unwrap()
}

#[tokio::test]
async fn a_condition_decides_for_one_step_and_one_scope() {
    let registry = with_tools(&["always"]);
    let scope = registry.open_scope(None);
    let key = Some(scope.key());
    register_when(&registry, "yes", || Ok(true)).keep();
    register_when(&registry, "no", || Ok(false)).keep();
    assert!(registry.get("yes", key, None).is_some(), "inspection sees conditional tools");
    assert!(registry.executable("yes", key, None).is_none(), "no set, no conditional tool");
    let set = registry.resolve(key, &activation()).await.unwrap();
    let admitted =
        |scope| -> Vec<String> { set.view(scope).iter().map(|tool| tool.schema().name.clone()).collect() };
    assert_eq!(admitted(key), ["always", "yes"]);
    assert_eq!(admitted(None), Vec::<String>::new(), "another scope is never admitted");
    assert!(registry.executable("yes", key, Some(&set)).is_some());
    assert!(registry.executable("no", key, Some(&set)).is_none());
    set.dispose();
    assert!(admitted(key).is_empty() && registry.executable("always", key, Some(&set)).is_none());
}

#[tokio::test]
async fn what_is_removed_replaced_or_restricted_drops_out_of_the_set() {
    let registry = with_tools(&["restricted"]);
    let scope = registry.open_scope(None);
    let key = Some(scope.key());
    let removed = register(&registry, None, "removed");
    let replaced = register(&registry, None, "replaced");
    let set = registry.resolve(key, &activation()).await.unwrap();
    drop(removed);
    drop(replaced);
    register(&registry, None, "replaced").keep();
    let _restriction = registry.restrict(key, Restriction::deny(["restricted"])).unwrap();
    for name in ["removed", "replaced", "restricted"] {
        assert!(registry.executable(name, key, Some(&set)).is_none(), "{name}");
    }
}

#[tokio::test]
async fn a_condition_that_fails_or_a_cancellation_leaves_no_set() {
    let registry = Registry::new();
    register_when(&registry, "bad", || Err(ToolFailure::plain("broke"))).keep();
    let error = registry.resolve(None, &activation()).await.err().unwrap();
    assert_eq!(error.to_string(), "whether tool bad takes part in this step cannot be told: broke");
    let context = activation();
    context.cancel.cancel();
    assert_eq!(registry.resolve(None, &context).await.err(), Some(ResolveError::Cancelled));
}

#[tokio::test]
async fn a_late_answer_does_not_restore_what_was_removed() {
    let registry = Registry::new();
    let mut disposer = Some(register_when(&registry, "t", || Ok(true)));
    let context = activation();
    let (set, ()) = tokio::join!(registry.resolve(None, &context), async {
        drop(disposer.take());
    });
    assert!(set.unwrap().view(None).is_empty());
}
