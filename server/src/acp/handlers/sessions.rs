//! A session's life: new, load, resume, fork, close, delete; the list of stored ones, their titles and states.
//!
//! Who opens or closes a session takes a pass in the dispatch loop, so that such requests keep their order.

use super::answer_in_order;
use super::options::options_of;
use crate::acp::config_options::mode_state;
use crate::acp::error::{from_store, invalid_params, unknown_session};
use crate::acp::server::{OpenSession, Server};
use crate::acp::stored::Folders;
use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse,
    ForkSessionRequest, ForkSessionResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest,
    LoadSessionResponse, NewSessionRequest, NewSessionResponse, ResumeSessionRequest, ResumeSessionResponse,
    SessionId as WireSessionId, SessionStatus, SessionStatusRequest, SessionStatusResponse,
    SetSessionTitleRequest, SetSessionTitleResponse,
};
use protocol::id::SessionId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Commands are sent this long after the answer of `session/new`: a client registers the session after it read that
/// answer, and drops what comes before. Source: `clients.md` §2, session life cycle.
const COMMANDS_DELAY: Duration = Duration::from_millis(30);

/// `session/new`.
pub(super) async fn new(
    server: &Arc<Server>,
    request: NewSessionRequest,
    responder: Responder<NewSessionResponse>,
) {
    let opened = match folders(request.cwd, request.additional_directories) {
        Ok(folders) => {
            server.new_session(folders.cwd, folders.additional).await.map_err(|error| from_store(&error))
        }
        Err(error) => Err(error),
    };
    let open = match opened {
        Ok(open) => open,
        Err(error) => return answer_in_order(server, responder, Err(error)),
    };
    open.connect_mcp(&request.mcp_servers);
    let response = NewSessionResponse::new(WireSessionId::new(open.session.scope().session_id.as_str()))
        .modes(mode_state(open.session.state().mode()))
        .config_options(options_of(server, &open));
    answer_in_order(server, responder, Ok(response));
    tokio::time::sleep(COMMANDS_DELAY).await;
    open.tell_commands().await;
    open.tell_once();
}

/// `session/load`: everything that was seen, then the answer.
pub(super) fn load(
    server: &Arc<Server>,
    request: LoadSessionRequest,
    responder: Responder<LoadSessionResponse>,
) {
    let id = SessionId::new(request.session_id.0.as_ref());
    let pass = server.doors.pass(&id);
    let server = server.clone();
    tokio::spawn(async move {
        let pass = pass.await;
        let opened = match folders(request.cwd, request.additional_directories) {
            Ok(folders) => server.open_stored(&id, folders).await,
            Err(error) => Err(error),
        };
        let open = match opened {
            Ok(open) => open,
            Err(error) => return answer_in_order(&server, responder, Err(error)),
        };
        open.connect_mcp(&request.mcp_servers);
        let outbox = server.outbox();
        // Queued under the log's lock: what happens from now on is shown after it.
        open.session.with_records(|records| outbox.replay(&open.view, records.to_vec()));
        open.tell_commands_again().await;
        let response = LoadSessionResponse::new()
            .modes(mode_state(open.session.state().mode()))
            .config_options(options_of(&server, &open));
        answer_in_order(&server, responder, Ok(response));
        drop(pass);
        tokio::time::sleep(COMMANDS_DELAY).await;
        open.tell_once();
    });
}

/// `session/resume`: nothing is told again.
pub(super) fn resume(
    server: &Arc<Server>,
    request: ResumeSessionRequest,
    responder: Responder<ResumeSessionResponse>,
) {
    let id = SessionId::new(request.session_id.0.as_ref());
    let pass = server.doors.pass(&id);
    let server = server.clone();
    tokio::spawn(async move {
        let pass = pass.await;
        let opened = match folders(request.cwd, request.additional_directories) {
            Ok(folders) => server.open_stored(&id, folders).await,
            Err(error) => Err(error),
        };
        let open = match opened {
            Ok(open) => open,
            Err(error) => return answer_in_order(&server, responder, Err(error)),
        };
        open.connect_mcp(&request.mcp_servers);
        let response = ResumeSessionResponse::new()
            .modes(mode_state(open.session.state().mode()))
            .config_options(options_of(&server, &open));
        answer_in_order(&server, responder, Ok(response));
        drop(pass);
        tell_state(&server, &open).await;
    });
}

/// `session/fork`: a session of its own that begins with what is settled of another.
pub(super) fn fork(
    server: &Arc<Server>,
    request: ForkSessionRequest,
    responder: Responder<ForkSessionResponse>,
) {
    let id = SessionId::new(request.session_id.0.as_ref());
    let pass = server.doors.pass(&id);
    let server = server.clone();
    tokio::spawn(async move {
        let forked = match folders(request.cwd, request.additional_directories) {
            Ok(folders) => {
                let _pass = pass.await;
                server.fork(&id, folders).await
            }
            Err(error) => Err(error),
        };
        let open = match forked {
            Ok(open) => open,
            Err(error) => return answer_in_order(&server, responder, Err(error)),
        };
        open.connect_mcp(&request.mcp_servers);
        let response = ForkSessionResponse::new(WireSessionId::new(open.session.scope().session_id.as_str()))
            .modes(mode_state(open.session.state().mode()))
            .config_options(options_of(&server, &open));
        answer_in_order(&server, responder, Ok(response));
        tell_state(&server, &open).await;
    });
}

/// `session/list`.
pub(super) fn list(
    server: &Arc<Server>,
    request: ListSessionsRequest,
    responder: Responder<ListSessionsResponse>,
) {
    let server = server.clone();
    tokio::spawn(async move {
        let page = server.list(request.cwd.as_deref(), request.cursor.as_deref()).await;
        let response = page.map(|(sessions, next)| ListSessionsResponse::new(sessions).next_cursor(next));
        answer_in_order(&server, responder, response);
    });
}

/// `session/close`.
pub(super) fn close(
    server: &Arc<Server>,
    request: CloseSessionRequest,
    responder: Responder<CloseSessionResponse>,
) {
    let id = &request.session_id;
    let pass = server.doors.pass(&SessionId::new(id.0.as_ref()));
    // Taken out here, so that no later prompt finds it.
    let Some(open) = server.forget(id) else {
        return answer_in_order(server, responder, Err(unknown_session(&id.0)));
    };
    let server = server.clone();
    tokio::spawn(async move {
        let _pass = pass.await;
        open.close().await;
        answer_in_order(&server, responder, Ok(CloseSessionResponse::new()));
    });
}

/// `session/delete`.
pub(super) fn delete(
    server: &Arc<Server>,
    request: DeleteSessionRequest,
    responder: Responder<DeleteSessionResponse>,
) {
    let id = SessionId::new(request.session_id.0.as_ref());
    let pass = server.doors.pass(&id);
    let server = server.clone();
    tokio::spawn(async move {
        let _pass = pass.await;
        let deleted = server.delete(&id).await;
        answer_in_order(&server, responder, deleted.map(|()| DeleteSessionResponse::new()));
    });
}

/// `session/set_title`.
pub(super) fn set_title(
    server: &Arc<Server>,
    request: SetSessionTitleRequest,
    responder: Responder<SetSessionTitleResponse>,
) {
    let id = SessionId::new(request.session_id.0.as_ref());
    let pass = server.doors.pass(&id);
    let server = server.clone();
    tokio::spawn(async move {
        let _pass = pass.await;
        let title = server.set_title(&id, &request.title).await;
        answer_in_order(&server, responder, title.map(SetSessionTitleResponse::new));
    });
}

/// `session/status`.
pub(super) fn status(
    server: &Arc<Server>,
    request: SessionStatusRequest,
    responder: Responder<SessionStatusResponse>,
) {
    let server = server.clone();
    tokio::spawn(async move {
        let is_open = server.is_open(&SessionId::new(request.session_id.0.as_ref())).await;
        let status = is_open.map(|is_open| if is_open { SessionStatus::Open } else { SessionStatus::Saved });
        answer_in_order(&server, responder, status.map(SessionStatusResponse::new));
    });
}

/// What a client that was told nothing must know, once it knows the session.
async fn tell_state(server: &Server, open: &OpenSession) {
    tokio::time::sleep(COMMANDS_DELAY).await;
    server.outbox().state(&open.view);
    open.tell_commands_again().await;
    open.tell_once();
}

/// The folders of a session, each absolute and existing.
fn folders(cwd: PathBuf, additional: Vec<PathBuf>) -> Result<Folders, Error> {
    folder("cwd", &cwd)?;
    for (idx, path) in additional.iter().enumerate() {
        folder(&format!("additionalDirectories[{idx}]"), path)?;
    }
    Ok(Folders { cwd, additional })
}

fn folder(field: &str, path: &Path) -> Result<(), Error> {
    if !path.is_absolute() {
        return Err(invalid_params(field, &format!("`{}` is not an absolute path", path.display())));
    }
    if !path.is_dir() {
        return Err(invalid_params(
            field,
            &format!("`{}` is not a folder on the machine this agent runs on", path.display()),
        ));
    }
    Ok(())
}
