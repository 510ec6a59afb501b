//! A scenario: arranged in data, then played on the real binary.
//!
//! [`scenario`] builds one; [`Scenario::start`] plays it up to an open session and gives the [`Stage`]. Tests run on
//! their own thread and wait; everything else happens in the stage's runtime. When a stage goes, the agent is killed,
//! whatever it left running too, and a conversation that broke a general rule fails the test.

use super::conformance::{KEY, violations};
use super::editor::{ClientKind, Decision, Desk, Editor, Habits};
use super::files::Buffers;
use super::process::{AgentProcess, Mark};
use super::terminals::Terminals;
use super::transcript::{Detail, draw};
use super::wire::{Line, Side, Wire};
use agent_client_protocol::Error;
use provider_llm::scripted::{Reply, ScriptedModel};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Longest wait for anything.
pub const DEADLINE: Duration = Duration::from_secs(15);

/// Starts to arrange a scenario: a full client, an empty folder, a model that says nothing.
pub fn scenario() -> Scenario {
    Scenario {
        files: Vec::new(),
        unsaved: Vec::new(),
        replies: Vec::new(),
        decisions: Vec::new(),
        client: ClientKind::full(),
        habits: Habits::default(),
        env: Vec::new(),
        config: String::new(),
        offline: false,
        providers: Vec::new(),
        spare_rules: Vec::new(),
    }
}

/// Points an agent that another program starts at a scripted model, and at a home of its own.
pub fn with_scripted_model<'a>(command: &'a mut Command, home: &Path, base_url: &str) -> &'a mut Command {
    command
        .env("HOME", home)
        .env("FOLLOWSPOT_HOME", home.join("followspot"))
        .env("OPENAI_BASE_URL", base_url)
        .env("OPENAI_API_KEY", "none")
        .env("FOLLOWSPOT_MODEL", "openai/scripted")
        .env("FOLLOWSPOT_MODEL_TITLES", "off")
}

/// What a run begins with.
pub struct Scenario {
    files: Vec<(String, Vec<u8>)>,
    unsaved: Vec<(String, String)>,
    replies: Vec<Reply>,
    decisions: Vec<Decision>,
    client: ClientKind,
    habits: Habits,
    env: Vec<(String, String)>,
    config: String,
    offline: bool,
    providers: Vec<String>,
    spare_rules: Vec<&'static str>,
}

/// Where scenarios are played: outside of the temporary folders, which commands may always write.
fn scenario_folder() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let is_temporary = target.starts_with("/tmp") || target.starts_with(std::env::temp_dir());
    if is_temporary { PathBuf::from("/var/tmp") } else { target }
}

impl Scenario {
    /// A file of the workspace.
    pub fn file(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.files.push((path.to_owned(), content.as_ref().to_vec()));
        self
    }

    /// A buffer that the user has not saved.
    pub fn unsaved(mut self, path: &str, text: &str) -> Self {
        self.unsaved.push((path.to_owned(), text.to_owned()));
        self
    }

    /// The model's next reply.
    pub fn model(mut self, reply: Reply) -> Self {
        self.replies.push(reply);
        self
    }

    /// The user's answer to the next question.
    pub fn user(mut self, decision: Decision) -> Self {
        self.decisions.push(decision);
        self
    }

    /// What the client says of itself.
    pub fn client(mut self, client: ClientKind) -> Self {
        self.client = client;
        self
    }

    /// How the client differs from the ideal one.
    pub fn habits(mut self, habits: Habits) -> Self {
        self.habits = habits;
        self
    }

    /// The mode sessions start in.
    pub fn mode(self, mode: &str) -> Self {
        self.env("FOLLOWSPOT_PERMISSION_MODE", mode)
    }

    /// A variable of the agent's environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Text of the user's `config.toml`.
    pub fn config(mut self, text: &str) -> Self {
        self.config.push_str(text);
        self
    }

    /// Uses the embedded model instead of the scripted one.
    pub fn offline(mut self) -> Self {
        self.offline = true;
        self
    }

    /// Points another provider than `openai` at the scripted model too.
    pub fn point_provider_at_model(mut self, provider: &str) -> Self {
        self.providers.push(provider.to_owned());
        self
    }

    /// Does not check this general rule: the scenario breaks it on purpose, or from outside.
    pub fn spare_rule(mut self, rule: &'static str) -> Self {
        self.spare_rules.push(rule);
        self
    }

    /// Starts the agent and opens a session.
    pub fn start(self) -> Stage {
        let mut stage = self.start_process();
        let params = stage.client.initialize_params();
        stage.request("initialize", params).expect("initialize is answered");
        stage.session = stage.new_session();
        stage
    }

    /// Starts the agent, opens a session, and plays one prompt to its end.
    pub fn prompt(self, text: &str) -> Stage {
        let stage = self.start();
        stage.prompt(text);
        stage
    }

    /// Starts the agent and says nothing to it.
    pub fn start_process(self) -> Stage {
        let root = tempfile::Builder::new().prefix("scenario-").tempdir_in(scenario_folder()).unwrap();
        let root_path = root.path().canonicalize().unwrap();
        for folder in ["workspace", "outside", "home"] {
            std::fs::create_dir(root_path.join(folder)).unwrap();
        }
        let workspace = root_path.join("workspace");
        for (path, content) in &self.files {
            write_file(&workspace.join(path), content);
        }
        let (base_url, model) = ScriptedModel::start(self.replies).unwrap();
        let providers =
            self.providers.iter().map(|name| format!("[providers.{name}]\nbase_url = \"{base_url}\"\n"));
        let config = self.config + &providers.collect::<String>();
        if !config.is_empty() {
            write_file(&root_path.join("home/config.toml"), config.as_bytes());
        }
        let mark = Mark::fresh();
        let home = root_path.join("home").display().to_string();
        let mut env = vec![
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
            ("HOME".to_owned(), home.clone()),
            ("FOLLOWSPOT_HOME".to_owned(), home),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            mark.variable(),
        ];
        let mut agent_env = env.clone();
        if self.offline {
            agent_env.push(("FOLLOWSPOT_MODEL".to_owned(), "offline/offline".to_owned()));
        } else {
            agent_env.push(("OPENAI_BASE_URL".to_owned(), base_url));
            agent_env.push(("OPENAI_API_KEY".to_owned(), KEY.to_owned()));
            agent_env.push(("FOLLOWSPOT_MODEL".to_owned(), "openai/scripted".to_owned()));
        }
        agent_env.extend(self.env);
        // Scripts count requests; a scenario about titles says so.
        agent_env.insert(0, ("FOLLOWSPOT_MODEL_TITLES".to_owned(), "off".to_owned()));
        env.push(("TERM".to_owned(), "dumb".to_owned()));

        let unsaved = self.unsaved.into_iter().map(|(path, text)| (workspace.join(path), text)).collect();
        let terminals = Terminals::new(workspace.clone(), env);
        let desk = Arc::new(Desk::new(Buffers::new(unsaved), terminals, self.habits, self.decisions));
        let wire = Arc::<Wire>::default();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (process, editor) = runtime.block_on(async {
            // Started elsewhere on purpose: nothing may depend on the process's own folder (C11).
            let (process, stdin, stdout) = AgentProcess::start(&["acp"], &agent_env, &root_path);
            (process, Editor::connect(stdin, stdout, wire, desk).await)
        });
        Stage {
            editor: Some(editor),
            process,
            runtime: Some(runtime),
            model,
            client: self.client,
            session: String::new(),
            root: root_path,
            workspace,
            agent_env,
            mark,
            spare_rules: self.spare_rules,
            earlier: Vec::new(),
            _root: root,
        }
    }
}

/// A running agent with an editor around it.
pub struct Stage {
    /// Always there until the end.
    editor: Option<Editor>,
    process: AgentProcess,
    runtime: Option<Runtime>,
    model: ScriptedModel,
    client: ClientKind,
    session: String,
    root: PathBuf,
    workspace: PathBuf,
    agent_env: Vec<(String, String)>,
    mark: Mark,
    spare_rules: Vec<&'static str>,
    /// Conversations with processes that are gone.
    earlier: Vec<Vec<Arc<Line>>>,
    _root: TempDir,
}

/// A request whose answer has not been waited for.
pub struct Pending {
    answer: JoinHandle<Result<Value, Error>>,
}

impl Pending {
    pub fn is_answered(&self) -> bool {
        self.answer.is_finished()
    }
}

impl Stage {
    /// The session that was opened first.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Opens a session in the workspace and waits until its commands have come.
    pub fn new_session(&self) -> String {
        let answer = self.request("session/new", self.new_session_params()).expect("session/new is answered");
        let session = answer["sessionId"].as_str().expect("session/new answers an id").to_owned();
        self.wait_for("the commands of the session", |lines| {
            lines.iter().find(|line| {
                line.update_kind() == Some("available_commands_update")
                    && line.params()["sessionId"] == *session
            })?;
            Some(())
        });
        session
    }

    pub fn new_session_params(&self) -> Value {
        json!({ "cwd": self.workspace(), "mcpServers": [] })
    }

    // Prompts.

    /// Plays a prompt to its end; gives the stop reason, or the error as text.
    pub fn prompt(&self, text: &str) -> String {
        let pending = self.send(text);
        self.end(pending)
    }

    /// Sends a prompt.
    pub fn send(&self, text: &str) -> Pending {
        self.send_blocks(&self.session, json!([{ "type": "text", "text": text }]))
    }

    /// Sends a prompt of any blocks to any session.
    pub fn send_blocks(&self, session: &str, blocks: Value) -> Pending {
        self.send_request("session/prompt", json!({ "sessionId": session, "prompt": blocks }))
    }

    /// Waits for the end of a prompt; gives the stop reason, or the error as text.
    pub fn end(&self, pending: Pending) -> String {
        match self.answer(pending) {
            Ok(answer) => answer["stopReason"].as_str().unwrap_or("nothing").to_owned(),
            Err(error) => format!("error {:?}", i32::from(error.code)),
        }
    }

    /// Stops the turn as a well-behaved client does: open questions are answered with `cancelled`.
    pub fn cancel(&self) {
        self.cancel_rudely();
        self.editor().desk.answer_parked(&Decision::Cancelled);
    }

    /// Stops the turn and leaves open questions open.
    pub fn cancel_rudely(&self) {
        self.editor().notify("session/cancel", json!({ "sessionId": self.session }));
    }

    // Requests.

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// The agent's own.
    pub fn request(&self, method: &str, params: Value) -> Result<Value, Error> {
        let pending = self.send_request(method, params);
        self.answer(pending)
    }

    pub fn send_request(&self, method: &str, params: Value) -> Pending {
        let runtime = self.runtime();
        let _inside = runtime.enter();
        Pending { answer: runtime.spawn(self.editor().request(method, params)) }
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// The agent's own.
    pub fn answer(&self, pending: Pending) -> Result<Value, Error> {
        match self.runtime().block_on(async { tokio::time::timeout(DEADLINE, pending.answer).await }) {
            Ok(answer) => answer.expect("the request's task does not panic"),
            Err(_) => self.expired("the answer to a request"),
        }
    }

    /// Sends a line as it is and waits for the answer to the id `id`; `null` is an answer without one.
    pub fn answer_to_line(&self, line: &str, id: &Value) -> Value {
        let n_before = self.lines().len();
        self.editor().send_line(line);
        self.wait_for(&format!("the answer to {}", line.chars().take(80).collect::<String>()), |lines| {
            let mut later =
                lines[n_before..].iter().filter(|line| line.from == Side::Agent && line.is_response());
            later.find(|line| line.message["id"] == *id).map(|line| line.message.clone())
        })
    }

    // Waiting.

    /// Waits until `find` finds something in the conversation so far.
    pub fn wait_for<T>(&self, what: &str, find: impl FnMut(&[Arc<Line>]) -> Option<T>) -> T {
        self.editor().wire.wait(DEADLINE, find).unwrap_or_else(|| self.expired(what))
    }

    /// Waits until something is so.
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + DEADLINE;
        // Asked without holding the record of the wire: the condition may read it.
        while !holds() {
            if Instant::now() > end {
                self.expired(what);
            }
            self.editor().wire.wait(Duration::from_millis(20), |_| None::<()>);
        }
    }

    /// Waits for an update of this kind in which `holds` holds.
    pub fn wait_for_update(&self, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.wait_for(&format!("an update {kind}"), |lines| {
            let mut updates = lines.iter().filter_map(|line| line.update());
            updates.find(|update| update["sessionUpdate"] == *kind && holds(update)).cloned()
        })
    }

    /// Waits until a call has this status.
    pub fn wait_for_status(&self, status: &str) -> Value {
        self.wait_for(&format!("a call that is {status}"), |lines| {
            lines.iter().filter_map(|line| line.update()).find(|update| update["status"] == *status).cloned()
        })
    }

    /// Waits until the agent has asked this of the editor; gives the parameters.
    pub fn wait_for_request(&self, method: &str) -> Value {
        self.wait_for(&format!("a request {method}"), |lines| {
            let mut requests = lines.iter().filter(|line| line.from == Side::Agent && line.is_request());
            requests.find(|line| line.method() == Some(method)).map(|line| line.params().clone())
        })
    }

    /// Waits until a question is open that the test has to answer; gives its parameters.
    pub fn wait_for_question(&self) -> Value {
        self.wait_until("an open question", || self.desk().n_parked() > 0);
        let lines = self.lines();
        let mut questions = lines.iter().rev().filter(|line| line.from == Side::Agent && line.is_request());
        let is_question =
            |method| matches!(method, Some("session/request_permission" | "elicitation/create"));
        questions
            .find(|line| is_question(line.method()))
            .expect("the question is on the wire")
            .params()
            .clone()
    }

    /// Fails with all there is to see.
    pub fn expired(&self, what: &str) -> ! {
        panic!("waited {DEADLINE:?} for {what}");
    }

    // What happened.

    /// The conversation as a picture.
    pub fn transcript(&self) -> String {
        self.picture(Detail::default())
    }

    /// The same with more in it.
    pub fn picture(&self, detail: Detail) -> String {
        let lines = self.lines();
        let from =
            lines.iter().position(|line| line.method() == Some("session/prompt")).unwrap_or(lines.len());
        let opening: Vec<_> = lines[..from].to_vec();
        // Sessions are numbered from their creation on.
        let drawn = draw(&lines, self.workspace(), detail);
        let skipped = draw(&opening, self.workspace(), detail).lines().count();
        drawn.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }

    pub fn lines(&self) -> Vec<Arc<Line>> {
        self.editor().wire.lines()
    }

    /// The methods the agent asked of the editor, in order, with the path where there is one.
    pub fn requests_of_agent(&self) -> Vec<String> {
        let lines = self.lines();
        let requests = lines.iter().filter(|line| line.from == Side::Agent && line.is_request());
        requests
            .map(|line| {
                let path = line.params()["path"].as_str().map(|path| Path::new(path).to_owned());
                let path = path.map(|path| path.strip_prefix(self.workspace()).unwrap_or(&path).to_owned());
                let path = path.map(|path| format!(" {}", path.display())).unwrap_or_default();
                format!("{}{path}", line.method().unwrap_or_default())
            })
            .collect()
    }

    /// Every update of a kind.
    pub fn updates(&self, kind: &str) -> Vec<Value> {
        let lines = self.lines();
        let updates = lines.iter().filter_map(|line| line.update());
        updates.filter(|update| update["sessionUpdate"] == *kind).cloned().collect()
    }

    /// All that the agent said.
    pub fn said(&self) -> String {
        let chunks = self.updates("agent_message_chunk");
        chunks.iter().filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
    }

    /// The scripted model.
    pub fn model(&self) -> &ScriptedModel {
        &self.model
    }

    /// Results of calls as the last request told the model.
    pub fn results_for_model(&self) -> Vec<String> {
        let requests = self.model.requests();
        let messages = requests.last().and_then(|request| request["messages"].as_array().cloned());
        let messages = messages.unwrap_or_default();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        results.map(|message| text_of(&message["content"])).collect()
    }

    /// Texts of the user role in the last request.
    pub fn user_texts_for_model(&self) -> Vec<String> {
        let requests = self.model.requests();
        let messages = requests.last().and_then(|request| request["messages"].as_array().cloned());
        let messages = messages.unwrap_or_default();
        let users = messages.iter().filter(|message| message["role"] == "user");
        users.map(|message| text_of(&message["content"])).collect()
    }

    // The world.

    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// A path in the workspace.
    pub fn path(&self, path: &str) -> PathBuf {
        self.workspace().join(path)
    }

    /// A path that is in no folder of any session.
    pub fn outside(&self, path: &str) -> PathBuf {
        self.root.join("outside").join(path)
    }

    /// The agent's own folder.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub fn read(&self, path: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(path)).expect("the file is there")).into_owned()
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write_file(&self.path(path), content.as_ref());
    }

    #[track_caller]
    pub fn assert_file(&self, path: &str, content: &str) {
        assert_eq!(self.read(path), content, "{path}");
    }

    /// The editor's desk: buffers, terminals, habits, the user's answers.
    pub fn desk(&self) -> &Desk {
        &self.editor().desk
    }

    // The process.

    pub fn process(&self) -> &AgentProcess {
        &self.process
    }

    pub fn close_stdin(&self) {
        self.editor().close();
    }

    pub fn set_reading(&self, reads: bool) {
        self.editor().set_reading(reads);
    }

    pub fn send_line(&self, line: &str) {
        self.editor().send_line(line);
    }

    pub fn notify(&self, method: &str, params: Value) {
        self.editor().notify(method, params);
    }

    /// Waits for the process to end by itself.
    pub fn exit_status(&self, within: Duration) -> Option<ExitStatus> {
        self.runtime().block_on(self.process.ended(within))
    }

    /// Kills the agent and starts another in the same home, for the same editor. No session is open in it.
    pub fn restart(&mut self) {
        self.kill();
        let old = self.editor.take().expect("the editor is there until the stage goes");
        self.earlier.push(old.wire.lines());
        let (process, editor) = self.runtime().block_on(async {
            let (process, stdin, stdout) = AgentProcess::start(&["acp"], &self.agent_env, &self.root);
            (process, Editor::connect(stdin, stdout, Arc::default(), old.desk.clone()).await)
        });
        self.process = process;
        self.editor = Some(editor);
        self.request("initialize", self.client.initialize_params()).expect("initialize is answered");
    }

    /// Asks this of the first session, in its folder.
    ///
    /// # Errors
    /// The agent's own.
    pub fn about_session(&self, method: &str) -> Result<Value, Error> {
        let params = json!({ "sessionId": self.session, "cwd": self.workspace(), "mcpServers": [] });
        self.request(method, params)
    }

    /// `kill -9`.
    pub fn kill(&self) {
        self.runtime().block_on(self.process.kill());
    }

    /// Processes that come from this run, the agent itself left out.
    pub fn processes(&self) -> Vec<(u32, String)> {
        self.mark.processes(Some(self.process.pid()))
    }

    /// Waits until no process of this run is left.
    #[track_caller]
    pub fn assert_no_process_left(&self) {
        let gone =
            self.editor().wire.wait(Duration::from_secs(5), |_| self.processes().is_empty().then_some(()));
        assert!(gone.is_some(), "still running: {:?}", self.processes());
    }

    /// Runs another command of the program with the same home; gives stdout, and fails when it does.
    pub fn run(&self, args: &[&str]) -> String {
        self.run_with_input(args, "")
    }

    /// The same with something on its stdin.
    pub fn run_with_input(&self, args: &[&str], input: &str) -> String {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_followspot"))
            .args(args)
            .env_clear()
            .envs(self.agent_env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.workspace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // Dropped at once: the end of the input.
        child.stdin.take().expect("stdin is a pipe").write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().expect("the program ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {}\n{stderr}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn editor(&self) -> &Editor {
        self.editor.as_ref().expect("the editor is there until the stage goes")
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime is there until the stage goes")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        runtime.block_on(self.process.kill());
        self.mark.end_all();
        let editor = self.editor.take();
        runtime.shutdown_timeout(Duration::from_secs(1));
        let Some(editor) = editor else { return };
        let lines = editor.wire.lines();
        let mut faults = violations(&lines, &self.client);
        faults.extend(self.earlier.iter().flat_map(|lines| violations(lines, &self.client)));
        faults.retain(|fault| !self.spare_rules.iter().any(|rule| fault.starts_with(rule)));
        faults.extend(editor.desk.unexpected().iter().map(|question| format!("nobody expected {question}")));
        let unused = editor.desk.unused_decisions();
        if !unused.is_empty() {
            faults.push(format!("nobody asked for {unused:?}"));
        }
        let detail = Detail { everything: true, requests: true };
        let seen = || {
            let all = draw(&lines, &self.workspace, detail);
            format!("--- conversation ---\n{all}\n--- stderr ---\n{}", self.process.stderr())
        };
        if std::thread::panicking() {
            eprintln!("{}", seen());
        } else if !faults.is_empty() {
            panic!("{}\n{}", faults.join("\n"), seen());
        }
    }
}

fn write_file(path: &Path, content: &[u8]) {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).unwrap();
    }
    std::fs::write(path, content).unwrap();
}

/// A message's content as text: a string, or the texts of its parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
