//! The mode and the config options of a session.

use crate::acp::config_options::{self, config_options};
use crate::acp::error::{auth_required, from_store, invalid_params, unknown_session};
use crate::acp::server::{OpenSession, Server};
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    SessionConfigOption, SessionConfigOptionValue, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse,
};
use protocol::mode::Mode;
use protocol::model::ModelRef;
use services::model::ModelErrorKind;

pub(super) fn set_mode(
    server: &Server,
    request: &SetSessionModeRequest,
) -> Result<SetSessionModeResponse, Error> {
    let open = server.session(&request.session_id).ok_or_else(|| unknown_session(&request.session_id.0))?;
    let mode = mode_of("modeId", &request.mode_id.0)?;
    open.session.set_mode(mode).map_err(|error| from_store(&error))?;
    Ok(SetSessionModeResponse::new())
}

fn mode_of(field: &str, id: &str) -> Result<Mode, Error> {
    Mode::from_id(id).ok_or_else(|| {
        let known: Vec<&str> = Mode::ALL.iter().map(|mode| mode.id()).collect();
        invalid_params(field, &format!("there is no mode `{id}`; use one of {}", known.join(", ")))
    })
}

pub(super) fn set_config_option(
    server: &Server,
    request: &SetSessionConfigOptionRequest,
) -> Result<SetSessionConfigOptionResponse, Error> {
    let open = server.session(&request.session_id).ok_or_else(|| unknown_session(&request.session_id.0))?;
    let SessionConfigOptionValue::ValueId { value } = &request.value else {
        return Err(invalid_params("value", "this option takes the id of one of its values"));
    };
    let value = value.0.as_ref();
    let models = &server.parts().models;
    let (model, _) = open.session.model();
    let changed = match request.config_id.0.as_ref() {
        config_options::MODE => open.session.set_mode(mode_of("value", value)?),
        config_options::MODEL => {
            let model = ModelRef::parse(value).ok_or_else(|| {
                invalid_params("value", &format!("`{value}` is not written provider/model"))
            })?;
            // -32000 only for a provider that was chosen and has no key.
            models.check(&model).map_err(|error| match error.kind {
                ModelErrorKind::Auth => auth_required(&error.message),
                _ => invalid_params("value", &error.message),
            })?;
            let effort = models.info(&model).default_effort;
            open.session.set_model(model, effort)
        }
        config_options::EFFORT => {
            let efforts = models.info(&model).efforts;
            if !efforts.iter().any(|effort| effort == value) {
                return Err(invalid_params(
                    "value",
                    &format!("{model} has no effort `{value}`; use one of {}", efforts.join(", ")),
                ));
            }
            open.session.set_model(model, Some(value.to_owned()))
        }
        other => return Err(invalid_params("configId", &format!("there is no option `{other}`"))),
    };
    changed.map_err(|error| from_store(&error))?;
    Ok(SetSessionConfigOptionResponse::new(options_of(server, &open)))
}

/// Every option of a session with its present value.
pub(super) fn options_of(server: &Server, open: &OpenSession) -> Vec<SessionConfigOption> {
    let (model, effort) = open.session.model();
    config_options(&*server.parts().models, open.session.state().mode(), &model, effort.as_deref())
}
