//! What is known about models. Advisory: an id that is not listed passes through with what its family implies.
//!
//! Called by the `Models` implementation and by the wire formats for limits and efforts. Prices are those the providers
//! published when this was written, and are left out where they change too often to be trusted.

use crate::endpoint::{Endpoint, Flavour, ProviderConfig};
use protocol::model::{ModelInfo, ModelRef, Price};

const DEEPSEEK_EFFORTS: &[&str] = &["off", "low", "high", "max"];
const OPENAI_EFFORTS: &[&str] = &["none", "low", "medium", "high", "xhigh", "max"];
const CLAUDE_EFFORTS: &[&str] = &["low", "medium", "high", "max"];
const CLAUDE_BUDGETED: &[&str] = &["off", "low", "medium", "high"];
const GATEWAY_EFFORTS: &[&str] = &["none", "low", "medium", "high"];

/// A listed model, or with `is_family` every id that starts with it.
struct Row {
    provider: &'static str,
    id: &'static str,
    name: &'static str,
    is_family: bool,
    takes_images: Option<bool>,
    window: u64,
    max_output: Option<u64>,
    efforts: &'static [&'static str],
    default_effort: Option<&'static str>,
    /// Input, output, cache read.
    price: Option<(f64, f64, f64)>,
}

const DEEPSEEK: Row = Row {
    provider: "deepseek",
    id: "deepseek-",
    name: "",
    is_family: true,
    takes_images: None,
    window: 1_000_000,
    max_output: Some(256_000),
    efforts: DEEPSEEK_EFFORTS,
    default_effort: Some("high"),
    price: None,
};

const GPT: Row = Row {
    provider: "openai",
    id: "gpt-5",
    name: "",
    is_family: true,
    takes_images: Some(true),
    window: 400_000,
    max_output: Some(128_000),
    efforts: OPENAI_EFFORTS,
    default_effort: None,
    price: None,
};

const CLAUDE: Row = Row {
    provider: "anthropic",
    id: "claude-",
    name: "",
    is_family: true,
    takes_images: Some(true),
    window: 200_000,
    max_output: Some(32_000),
    efforts: &[],
    default_effort: None,
    price: None,
};

/// Each provider's default first; a listed id before the family it belongs to.
///
/// Sources: `spec/runtime.md` §6 for DeepSeek; the model pages of OpenAI and Anthropic.
const ROWS: &[Row] = &[
    Row {
        id: "deepseek-v4-flash",
        name: "DeepSeek V4 Flash",
        is_family: false,
        takes_images: Some(false),
        ..DEEPSEEK
    },
    Row {
        id: "deepseek-v4-pro",
        name: "DeepSeek V4 Pro",
        is_family: false,
        takes_images: Some(false),
        ..DEEPSEEK
    },
    Row {
        id: "deepseek-v4-flash-vision-exp",
        name: "DeepSeek V4 Flash Vision (experimental)",
        is_family: false,
        takes_images: Some(true),
        ..DEEPSEEK
    },
    DEEPSEEK,
    Row {
        id: "gpt-5.6-terra",
        name: "GPT-5.6 Terra",
        is_family: false,
        window: 1_050_000,
        default_effort: Some("medium"),
        price: Some((2.0, 12.0, 0.2)),
        ..GPT
    },
    Row {
        id: "gpt-5.6-sol",
        name: "GPT-5.6 Sol",
        is_family: false,
        window: 1_050_000,
        default_effort: Some("medium"),
        ..GPT
    },
    Row {
        id: "gpt-5.6-luna",
        name: "GPT-5.6 Luna",
        is_family: false,
        window: 1_050_000,
        default_effort: Some("medium"),
        price: Some((0.2, 1.2, 0.02)),
        ..GPT
    },
    GPT,
    Row { id: "gpt-4.1", window: 1_047_576, max_output: Some(32_768), efforts: &[], ..GPT },
    Row { id: "gpt-4o", window: 128_000, max_output: Some(16_384), efforts: &[], ..GPT },
    Row {
        id: "claude-sonnet-5",
        name: "Claude Sonnet 5",
        is_family: false,
        window: 1_000_000,
        max_output: Some(128_000),
        efforts: CLAUDE_EFFORTS,
        default_effort: Some("high"),
        price: Some((2.0, 10.0, 0.2)),
        ..CLAUDE
    },
    Row {
        id: "claude-opus-5-5",
        name: "Claude Opus 5.5",
        is_family: false,
        window: 1_000_000,
        max_output: Some(128_000),
        efforts: CLAUDE_EFFORTS,
        default_effort: Some("medium"),
        price: Some((4.0, 20.0, 0.4)),
        ..CLAUDE
    },
    Row {
        id: "claude-fable-5-1",
        name: "Claude Fable 5.1",
        is_family: false,
        window: 1_000_000,
        max_output: Some(128_000),
        efforts: CLAUDE_EFFORTS,
        default_effort: Some("high"),
        price: Some((10.0, 50.0, 1.0)),
        ..CLAUDE
    },
    Row {
        id: "claude-haiku-4-5",
        name: "Claude Haiku 4.5",
        is_family: false,
        max_output: Some(64_000),
        efforts: CLAUDE_BUDGETED,
        default_effort: Some("off"),
        price: Some((1.0, 5.0, 0.1)),
        ..CLAUDE
    },
    Row {
        id: "claude-haiku-4-5",
        max_output: Some(64_000),
        efforts: CLAUDE_BUDGETED,
        default_effort: Some("off"),
        ..CLAUDE
    },
    Row {
        id: "claude-sonnet-4-5",
        max_output: Some(64_000),
        efforts: CLAUDE_BUDGETED,
        default_effort: Some("off"),
        ..CLAUDE
    },
    Row {
        id: "claude-opus-4-5",
        max_output: Some(64_000),
        efforts: CLAUDE_BUDGETED,
        default_effort: Some("off"),
        ..CLAUDE
    },
    Row { id: "claude-opus-4-1", efforts: CLAUDE_BUDGETED, default_effort: Some("off"), ..CLAUDE },
    // Dated ids of the first Opus 4.
    Row { id: "claude-opus-4-2", efforts: CLAUDE_BUDGETED, default_effort: Some("off"), ..CLAUDE },
    Row {
        id: "claude-opus-4-",
        window: 1_000_000,
        max_output: Some(128_000),
        efforts: CLAUDE_EFFORTS,
        default_effort: Some("high"),
        ..CLAUDE
    },
    Row {
        id: "claude-sonnet-4-6",
        window: 1_000_000,
        max_output: Some(64_000),
        efforts: CLAUDE_EFFORTS,
        default_effort: Some("high"),
        ..CLAUDE
    },
    CLAUDE,
];

/// How Claude is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaudeThinking {
    /// It decides itself; an effort steers it.
    Adaptive,
    /// It gets a number of tokens.
    Budget,
    /// Nothing is said about it.
    Unsaid,
}

/// How a Claude model is told to think.
pub(crate) fn claude_thinking(info: &ModelInfo) -> ClaudeThinking {
    match info.efforts.first().map(String::as_str) {
        None => ClaudeThinking::Unsaid,
        Some("off") => ClaudeThinking::Budget,
        Some(_) => ClaudeThinking::Adaptive,
    }
}

/// Ids listed for a provider, its default first.
pub(crate) fn listed(provider: &str) -> impl Iterator<Item = ModelRef> {
    ROWS.iter()
        .filter(move |row| row.provider == provider && !row.is_family)
        .map(|row| ModelRef { provider: row.provider.to_owned(), model: row.id.to_owned() })
}

/// A provider whose list has this id.
pub(crate) fn provider_of(model: &str) -> Option<&'static str> {
    ROWS.iter().find(|row| !row.is_family && row.id == model).map(|row| row.provider)
}

/// What is known about a model: its row, its family's, or what its provider implies.
pub(crate) fn describe(
    model: &ModelRef,
    endpoint: Option<&Endpoint>,
    config: Option<&ProviderConfig>,
) -> ModelInfo {
    let row = ROWS.iter().find(|row| {
        row.provider == model.provider
            && if row.is_family { model.model.starts_with(row.id) } else { model.model == row.id }
    });
    let mut info = ModelInfo {
        id: model.clone(),
        display_name: model.model.clone(),
        takes_images: None,
        context_window: None,
        max_output_tokens: None,
        efforts: Vec::new(),
        default_effort: None,
        price: None,
    };
    if let Some(row) = row {
        if !row.name.is_empty() {
            row.name.clone_into(&mut info.display_name);
        }
        info.takes_images = row.takes_images;
        info.context_window = Some(row.window);
        info.max_output_tokens = row.max_output;
        info.efforts = row.efforts.iter().map(|&effort| effort.to_owned()).collect();
        info.default_effort = row.default_effort.map(str::to_owned);
        info.price = row.price.map(|(input, output, cache_read)| Price { input, output, cache_read });
    } else if endpoint.is_some_and(|endpoint| endpoint.flavour == Flavour::OpenRouter) {
        info.efforts = GATEWAY_EFFORTS.iter().map(|&effort| effort.to_owned()).collect();
    }
    if let Some(config) = config {
        info.takes_images = config.takes_images.or(info.takes_images);
        info.context_window = config.context_window.or(info.context_window);
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(model: &str) -> ModelInfo {
        describe(&ModelRef::parse(model).unwrap(), None, None)
    }

    #[test]
    fn listed_families_and_unknown_models_are_described() {
        let cases = [
            ("deepseek/deepseek-v4-flash", "DeepSeek V4 Flash", Some(1_000_000), Some(false), Some("high")),
            (
                "deepseek/deepseek-v4-flash-vision-exp",
                "DeepSeek V4 Flash Vision (experimental)",
                Some(1_000_000),
                Some(true),
                Some("high"),
            ),
            ("deepseek/deepseek-v9", "deepseek-v9", Some(1_000_000), None, Some("high")),
            ("openai/gpt-5.4", "gpt-5.4", Some(400_000), Some(true), None),
            ("openai/local-thing", "local-thing", None, None, None),
            ("anthropic/claude-opus-4-6", "claude-opus-4-6", Some(1_000_000), Some(true), Some("high")),
            (
                "anthropic/claude-haiku-4-5-20251001",
                "claude-haiku-4-5-20251001",
                Some(200_000),
                Some(true),
                Some("off"),
            ),
            ("ollama/qwen3", "qwen3", None, None, None),
        ];
        for (model, name, window, images, effort) in cases {
            let info = about(model);
            assert_eq!(
                (
                    info.display_name.as_str(),
                    info.context_window,
                    info.takes_images,
                    info.default_effort.as_deref()
                ),
                (name, window, images, effort),
                "{model}"
            );
        }
    }

    #[test]
    fn default_efforts_are_among_the_efforts_and_providers_list_their_default_first() {
        for row in ROWS {
            assert!(row.default_effort.is_none_or(|effort| row.efforts.contains(&effort)), "{}", row.id);
        }
        assert_eq!(listed("deepseek").next().unwrap().to_string(), "deepseek/deepseek-v4-flash");
    }

    #[test]
    fn configuration_outranks_the_catalogue() {
        let config = ProviderConfig {
            takes_images: Some(true),
            context_window: Some(8_000),
            ..ProviderConfig::default()
        };
        let info = describe(&ModelRef::parse("local/llava").unwrap(), None, Some(&config));
        assert_eq!((info.takes_images, info.context_window), (Some(true), Some(8_000)));
    }
}
