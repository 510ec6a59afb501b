//! Mode, model and thinking effort as session config options, and the modes of older clients.

use agent_client_protocol::v1::schema::{
    SessionConfigId, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption,
    SessionConfigValueId, SessionMode, SessionModeId, SessionModeState,
};
use protocol::mode::Mode;
use protocol::model::ModelRef;
use services::model::Models;

/// Id of the mode option.
pub const MODE: &str = "mode";
/// Id of the model option.
pub const MODEL: &str = "model";
/// Id of the thinking-effort option.
pub const EFFORT: &str = "thinking";

/// Every option with its present value. The efforts are those of the present model.
pub fn config_options(
    models: &dyn Models,
    mode: Mode,
    model: &ModelRef,
    effort: Option<&str>,
) -> Vec<SessionConfigOption> {
    let modes = Mode::ALL
        .iter()
        .map(|mode| {
            SessionConfigSelectOption::new(value(mode.id()), mode.name()).description(mode.description())
        })
        .collect::<Vec<_>>();
    let mut choices = models.list();
    if !choices.iter().any(|info| info.id == *model) {
        // A model that no catalogue lists can be in force all the same.
        choices.insert(0, models.info(model));
    }
    let choices = choices
        .into_iter()
        .map(|info| {
            SessionConfigSelectOption::new(value(&info.id.to_string()), info.display_name)
                .description(info.id.to_string())
        })
        .collect::<Vec<_>>();
    let mut options = vec![
        SessionConfigOption::select(SessionConfigId::new(MODE), "Mode", value(mode.id()), modes)
            .category(SessionConfigOptionCategory::Mode),
        SessionConfigOption::select(SessionConfigId::new(MODEL), "Model", value(&model.to_string()), choices)
            .category(SessionConfigOptionCategory::Model),
    ];
    let info = models.info(model);
    let current = effort.map(str::to_owned).or(info.default_effort);
    if let (false, Some(current)) = (info.efforts.is_empty(), current) {
        let efforts = info
            .efforts
            .iter()
            .map(|effort| SessionConfigSelectOption::new(value(effort), capitalised(effort)))
            .collect::<Vec<_>>();
        options.push(
            SessionConfigOption::select(SessionConfigId::new(EFFORT), "Thinking", value(&current), efforts)
                .category(SessionConfigOptionCategory::ThoughtLevel),
        );
    }
    options
}

/// The modes as older clients take them.
pub fn mode_state(mode: Mode) -> SessionModeState {
    let modes = Mode::ALL
        .iter()
        .map(|mode| {
            SessionMode::new(SessionModeId::new(mode.id()), mode.name())
                .description(mode.description().to_owned())
        })
        .collect();
    SessionModeState::new(SessionModeId::new(mode.id()), modes)
}

fn value(text: &str) -> SessionConfigValueId {
    SessionConfigValueId::new(text)
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
