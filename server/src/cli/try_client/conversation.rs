//! The conversation: one loop that owns what is shown and asked, fed by the connection, the terminals and the person.
//!
//! Runs beside the connection, never inside its dispatch loop, so it may wait for the person as long as it likes.

use super::ask::{self, Field};
use super::client::{self, respond};
use super::input::{Input, Interrupt};
use super::render::{TerminalEnd, Transcript};
use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAcceptAction, ElicitationAction,
    ElicitationContentValue, ElicitationMode, PromptResponse, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SessionId, SessionNotification, StopReason,
    TerminalId,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Error, is_incoming_transport_closed};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Time a cancelled turn has to end.
const CANCEL: Duration = Duration::from_secs(10);
/// Time an answer may take when it comes from a pipe.
const PIPED_ANSWER: Duration = Duration::from_secs(30);

/// What happens to the conversation.
pub enum Event {
    /// The agent says something.
    Update(Box<SessionNotification>),
    /// The agent asks whether it may.
    Permission(Box<RequestPermissionRequest>, Responder<RequestPermissionResponse>),
    /// The agent asks for values.
    Form(Box<CreateElicitationRequest>, Responder<CreateElicitationResponse>),
    /// A terminal printed something.
    TerminalOutput(TerminalId, String),
    /// A terminal's command ended.
    TerminalEnded(TerminalId, TerminalEnd),
    /// The turn is over.
    TurnEnded(Result<PromptResponse, Error>),
}

/// Prints text, all of it, at once.
pub type Print = Box<dyn FnMut(&str) -> io::Result<()>>;

/// Where text goes.
pub struct Screen {
    /// The conversation; `None` when only the wire is to be seen.
    pub transcript: Option<Print>,
    /// Questions, which must be seen in any case.
    pub questions: Print,
}

/// Why the conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// All is said. Whether it ended well.
    Done(bool),
    /// The person went.
    ByPerson,
    /// The server is gone.
    ServerGone,
    /// A cancelled turn did not end.
    Stuck,
    /// Nobody reads our output any more.
    OutputGone,
}

/// A running conversation.
pub struct Conversation {
    /// The agent.
    pub connection: ConnectionTo<Agent>,
    /// The session.
    pub session_id: SessionId,
    /// What has been shown.
    pub transcript: Transcript,
    /// Where it is shown.
    pub screen: Screen,
    /// The person.
    pub input: Input,
    /// What happens.
    pub events: mpsc::UnboundedReceiver<Event>,
    /// For what will happen.
    pub sender: mpsc::UnboundedSender<Event>,
    /// Whether every permission question is answered with yes.
    pub yes: bool,
    /// The beginning of time.
    pub began: Instant,
    /// When the turn was cancelled.
    pub cancelled: Option<Instant>,
}

/// How a question was answered.
enum Answer {
    Line(String),
    /// End of input, or nothing in time.
    Nobody,
    /// The agent does not want to know any more.
    Withdrawn,
    Interrupt(Interrupt),
}

impl Conversation {
    /// One turn.
    pub async fn once(&mut self, prompt: &str) -> Left {
        self.turn(prompt).await.map_or_else(|left| left, Left::Done)
    }

    /// Turn after turn, until the person leaves.
    pub async fn interactive(&mut self) -> Left {
        match self.turns().await {
            Ok(()) => Left::Done(true),
            Err(left) => left,
        }
    }

    /// Shows the header and whatever else the transcript holds.
    ///
    /// # Errors
    /// Nobody reads our output any more.
    pub fn flush(&mut self) -> Result<bool, Left> {
        let text = self.transcript.take();
        if text.is_empty() {
            return Ok(false);
        }
        if let Some(print) = &mut self.screen.transcript {
            print(&text).map_err(|_| Left::OutputGone)?;
        }
        Ok(true)
    }

    fn flush_question(&mut self) -> Result<(), Left> {
        let text = self.transcript.take();
        let print = self.screen.transcript.as_mut().unwrap_or(&mut self.screen.questions);
        print(&text).map_err(|_| Left::OutputGone)
    }

    async fn turns(&mut self) -> Result<(), Left> {
        let mut is_asked = false;
        let mut is_warned = false;
        let connection = self.connection.clone();
        loop {
            if !is_asked {
                self.transcript.ask_for_prompt();
                self.flush()?;
            }
            is_asked = false;
            let typed = tokio::select! {
                biased;
                () = connection.incoming_closed() => return Err(Left::ServerGone),
                Some(event) = self.events.recv() => {
                    // A turn of the agent's own is not ours to end.
                    self.event(event).await?;
                    is_asked = !self.flush()?;
                    continue;
                }
                typed = self.input.line_or_interrupt() => typed,
            };
            match typed {
                Ok(Some(line)) => {
                    is_warned = false;
                    self.transcript.answered(&line, self.input.is_terminal());
                    if !line.trim().is_empty() {
                        self.turn(&line).await?;
                    }
                }
                Ok(None) => {
                    self.transcript.answered("", false);
                    self.flush()?;
                    return Ok(());
                }
                Err(Interrupt::Stop) if !is_warned => {
                    is_warned = true;
                    self.transcript.remark("Ctrl-C again, or Ctrl-D, leaves.");
                }
                Err(_) => return Ok(()),
            }
        }
    }

    /// Sends a prompt and shows what comes of it. Returns whether it ended well.
    async fn turn(&mut self, prompt: &str) -> Result<bool, Left> {
        self.transcript.prompted();
        self.cancelled = None;
        let began = Instant::now();
        client::prompt(&self.connection, &self.session_id, prompt, self.sender.clone());
        let ended = loop {
            let deadline = self.cancelled.map(|at| at + CANCEL);
            tokio::select! {
                biased;
                interrupt = self.input.interrupt() => {
                    if interrupt == Interrupt::Leave || self.cancelled.is_some() {
                        return Err(Left::ByPerson);
                    }
                    self.transcript.remark("Stopping … (Ctrl-C again leaves)");
                    self.cancel();
                }
                () = at(deadline) => return Err(Left::Stuck),
                Some(event) = self.events.recv() => {
                    if let Some(ended) = self.event(event).await? {
                        break ended;
                    }
                }
            }
            self.flush()?;
        };
        let is_success = match ended {
            Ok(response) => {
                self.transcript.turn_ended(response.stop_reason, began.elapsed());
                response.stop_reason == StopReason::EndTurn
            }
            Err(error) if is_incoming_transport_closed(&error) => return Err(Left::ServerGone),
            Err(error) => {
                self.transcript.failure(&client::words(&error), &[]);
                false
            }
        };
        self.flush()?;
        Ok(is_success)
    }

    fn cancel(&mut self) {
        self.cancelled = Some(Instant::now());
        client::cancel(&self.connection, &self.session_id);
    }

    /// Takes an event. Returns the turn's end when it is that.
    async fn event(&mut self, event: Event) -> Result<Option<Result<PromptResponse, Error>>, Left> {
        match event {
            Event::Update(update) if update.session_id == self.session_id => {
                self.transcript.update(&update.update, self.began.elapsed());
            }
            Event::Update(_) => {}
            Event::Permission(request, responder) => {
                let outcome = self.permission(&request, &responder).await?;
                self.transcript.permission_answered(&request, self.began.elapsed());
                respond(responder, Ok(RequestPermissionResponse::new(outcome)));
            }
            Event::Form(request, responder) => {
                let action = self.form(&request, &responder).await?;
                respond(responder, Ok(CreateElicitationResponse::new(action)));
            }
            Event::TerminalOutput(id, output) => self.transcript.terminal_output(&id, &output),
            Event::TerminalEnded(id, end) => self.transcript.terminal_ended(&id, end),
            Event::TurnEnded(ended) => return Ok(Some(ended)),
        }
        Ok(None)
    }

    async fn permission(
        &mut self,
        request: &RequestPermissionRequest,
        responder: &Responder<RequestPermissionResponse>,
    ) -> Result<RequestPermissionOutcome, Left> {
        if self.cancelled.is_some() {
            return Ok(RequestPermissionOutcome::Cancelled);
        }
        self.flush()?;
        if self.yes {
            self.transcript.allowed_unasked(request);
            return Ok(ask::allow(&request.options));
        }
        self.transcript.permission(request, self.began.elapsed());
        let choices = ask::choices(&request.options);
        for choice in &choices {
            self.transcript.choice(&choice.key, &choice.label);
        }
        self.transcript.choice(ask::CANCEL, "Stop the turn");
        self.input.before_question();
        loop {
            match self.answer(responder).await? {
                Answer::Line(line) if line.trim().eq_ignore_ascii_case(ask::CANCEL) => {
                    self.cancel();
                    return Ok(RequestPermissionOutcome::Cancelled);
                }
                Answer::Line(line) => match ask::chosen(&choices, &line) {
                    Some(choice) => return Ok(ask::selected(&choice.option_id)),
                    None => {
                        let keys: Vec<&str> = choices.iter().map(|choice| choice.key.as_str()).collect();
                        self.transcript.aside(&format!("Type {} or {}.", keys.join(", "), ask::CANCEL));
                    }
                },
                Answer::Nobody => {
                    self.transcript
                        .aside("Nobody answers, so the answer is no. (--yes allows every question.)");
                    return Ok(ask::reject(&request.options));
                }
                Answer::Withdrawn => return Ok(RequestPermissionOutcome::Cancelled),
                Answer::Interrupt(interrupt) => {
                    self.cancel();
                    return match interrupt {
                        Interrupt::Stop => Ok(RequestPermissionOutcome::Cancelled),
                        Interrupt::Leave => Err(Left::ByPerson),
                    };
                }
            }
        }
    }

    async fn form(
        &mut self,
        request: &CreateElicitationRequest,
        responder: &Responder<CreateElicitationResponse>,
    ) -> Result<ElicitationAction, Left> {
        let ElicitationMode::Form(form) = &request.mode else { return Ok(ElicitationAction::Decline) };
        let Some(fields) = ask::fields(&form.requested_schema) else { return Ok(ElicitationAction::Decline) };
        if self.cancelled.is_some() {
            return Ok(ElicitationAction::Cancel);
        }
        self.flush()?;
        self.transcript.form(request);
        self.input.before_question();
        let mut values = BTreeMap::new();
        for field in &fields {
            if field.is_answered_by(&values) {
                continue;
            }
            self.transcript.field(field, &request.message);
            match self.field(field, responder).await? {
                Ok(Some(value)) => drop(values.insert(field.key.clone(), value)),
                Ok(None) => {}
                Err(action) => return Ok(action),
            }
        }
        Ok(ElicitationAction::Accept(ElicitationAcceptAction::new().content(values)))
    }

    /// Asks for one field until the answer fits. The inner error ends the form.
    async fn field(
        &mut self,
        field: &Field,
        responder: &Responder<CreateElicitationResponse>,
    ) -> Result<Result<Option<ElicitationContentValue>, ElicitationAction>, Left> {
        loop {
            match self.answer(responder).await? {
                Answer::Line(line) => match field.parse(&line) {
                    Ok(value) => return Ok(Ok(value)),
                    Err(hint) => self.transcript.aside(&hint),
                },
                Answer::Nobody => {
                    self.transcript.aside("Nobody answers.");
                    return Ok(Err(ElicitationAction::Decline));
                }
                Answer::Withdrawn => return Ok(Err(ElicitationAction::Cancel)),
                Answer::Interrupt(Interrupt::Stop) => {
                    self.cancel();
                    return Ok(Err(ElicitationAction::Cancel));
                }
                Answer::Interrupt(Interrupt::Leave) => return Err(Left::ByPerson),
            }
        }
    }

    /// Asks for a line, for as long as the agent waits for it.
    async fn answer<T: agent_client_protocol::JsonRpcResponse>(
        &mut self,
        responder: &Responder<T>,
    ) -> Result<Answer, Left> {
        self.transcript.ask_for("> ");
        self.flush_question()?;
        let is_terminal = self.input.is_terminal();
        let budget = (!is_terminal).then(|| Instant::now() + PIPED_ANSWER);
        let withdrawn = responder.cancellation();
        let connection = self.connection.clone();
        let answer = tokio::select! {
            biased;
            () = withdrawn.cancelled() => Answer::Withdrawn,
            () = connection.incoming_closed() => Answer::Withdrawn,
            () = at(budget) => Answer::Nobody,
            typed = self.input.answer_or_interrupt() => match typed {
                Ok(Some(line)) => Answer::Line(line),
                Ok(None) => Answer::Nobody,
                Err(interrupt) => Answer::Interrupt(interrupt),
            }
        };
        match &answer {
            Answer::Line(line) => self.transcript.answered(line, is_terminal),
            Answer::Withdrawn => self.transcript.aside("The question was withdrawn."),
            Answer::Interrupt(_) => self.transcript.aside("Stopping …"),
            Answer::Nobody => {}
        }
        Ok(answer)
    }
}

/// Waits for an instant; `None` never comes.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}
