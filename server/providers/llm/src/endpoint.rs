//! Which provider a name stands for: address, wire format, and where its key is.
//!
//! Called for each request; environment variables outrank the configuration, which outranks the built-in addresses.

use crate::credentials::{Credentials, Secret};
use crate::failure::Wording;
use serde::Deserialize;
use services::model::{ModelError, ModelErrorKind};
use std::collections::BTreeMap;

/// One `[providers.NAME]` table: a provider of the user's, or changes to a built-in one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// Base of the addresses, without `/chat/completions` or `/messages`; `None` keeps a built-in provider's.
    #[serde(default)]
    pub base_url: Option<String>,
    /// Environment variable that holds the key; `None` is a built-in provider's own, or no variable.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// Wire format; `None` is the built-in provider's, or Chat Completions.
    #[serde(default)]
    pub kind: Option<ProviderKind>,
    /// Whether its models take images; `None` leaves that to the catalogue.
    #[serde(default)]
    pub takes_images: Option<bool>,
    /// Context window of its models in tokens; `None` leaves that to the catalogue.
    #[serde(default)]
    pub context_window: Option<u64>,
}

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// OpenAI's Chat Completions, the common tongue.
    Openai,
    /// Anthropic's Messages.
    Anthropic,
}

/// The habits of a provider beyond its wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    DeepSeek,
    OpenAi,
    OpenRouter,
    Ollama,
    Compatible,
    Anthropic,
}

/// Where requests to one provider go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub provider: String,
    pub flavour: Flavour,
    /// Without a slash at the end.
    pub base_url: String,
    /// Variables that may hold the key, the first one set wins.
    pub key_variables: Vec<String>,
    /// Whether requests make sense without a key.
    pub needs_key: bool,
}

struct BuiltIn {
    name: &'static str,
    flavour: Flavour,
    base_url: &'static str,
    /// Variables for the address, the first one set wins.
    base_variables: &'static [&'static str],
    key_variable: Option<&'static str>,
}

/// In the order in which a provider with a key becomes the default.
const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "deepseek",
        flavour: Flavour::DeepSeek,
        base_url: "https://api.deepseek.com",
        base_variables: &["DEEPSEEK_BASE_URL"],
        key_variable: Some("DEEPSEEK_API_KEY"),
    },
    BuiltIn {
        name: "openai",
        flavour: Flavour::OpenAi,
        base_url: "https://api.openai.com/v1",
        base_variables: &["OPENAI_BASE_URL"],
        key_variable: Some("OPENAI_API_KEY"),
    },
    BuiltIn {
        name: "anthropic",
        flavour: Flavour::Anthropic,
        base_url: "https://api.anthropic.com",
        base_variables: &["ANTHROPIC_BASE_URL"],
        key_variable: Some("ANTHROPIC_API_KEY"),
    },
    BuiltIn {
        name: "openrouter",
        flavour: Flavour::OpenRouter,
        base_url: "https://openrouter.ai/api/v1",
        base_variables: &["OPENROUTER_BASE_URL"],
        key_variable: Some("OPENROUTER_API_KEY"),
    },
    BuiltIn {
        name: "ollama",
        flavour: Flavour::Ollama,
        base_url: "http://127.0.0.1:11434/v1",
        base_variables: &["OLLAMA_BASE_URL", "OLLAMA_HOST"],
        key_variable: Some("OLLAMA_API_KEY"),
    },
];

/// Names of the built-in providers, in the order in which one with a key becomes the default.
pub fn built_in_providers() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|provider| provider.name)
}

/// The endpoint of `provider`; `None` for a name that nobody configured.
pub(crate) fn resolve(
    provider: &str,
    configured: &BTreeMap<String, ProviderConfig>,
    credentials: &Credentials,
) -> Option<Endpoint> {
    let built_in = BUILT_IN.iter().find(|candidate| candidate.name == provider);
    let config = configured.get(provider);
    if built_in.is_none() && config.is_none() {
        return None;
    }
    let from_environment = built_in
        .and_then(|built_in| built_in.base_variables.iter().find_map(|name| credentials.variable(name)));
    let base_url = from_environment
        .or_else(|| config.and_then(|config| config.base_url.clone()))
        .or_else(|| built_in.map(|built_in| built_in.base_url.to_owned()))
        .unwrap_or_default();
    let flavour = match (config.and_then(|config| config.kind), built_in) {
        (None, Some(built_in)) => built_in.flavour,
        (Some(ProviderKind::Anthropic), _) => Flavour::Anthropic,
        (Some(ProviderKind::Openai), Some(built_in)) if built_in.flavour != Flavour::Anthropic => {
            built_in.flavour
        }
        (Some(ProviderKind::Openai) | None, _) => Flavour::Compatible,
    };
    let base_url = tidy(&base_url, flavour);
    let own_variable = config.and_then(|config| config.api_key_env.clone());
    let named = own_variable.is_some();
    let key_variables: Vec<String> = own_variable
        .into_iter()
        .chain(built_in.and_then(|built_in| built_in.key_variable).map(str::to_owned))
        .collect();
    // A provider of the user's without a key variable is taken at its word.
    let needs_key = flavour != Flavour::Ollama && (built_in.is_some() || named) && !is_loopback(&base_url);
    Some(Endpoint { provider: provider.to_owned(), flavour, base_url, key_variables, needs_key })
}

impl Endpoint {
    /// Address of a request of the provider's wire format.
    pub fn url(&self) -> String {
        let path = match self.flavour {
            Flavour::Anthropic if self.base_url.ends_with("/v1") => "messages",
            Flavour::Anthropic => "v1/messages",
            _ => "chat/completions",
        };
        format!("{}/{path}", self.base_url)
    }

    /// Whether the address is this machine's.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.base_url)
    }

    /// Whether this is the company's own service, not something that speaks its language.
    pub fn is_official(&self) -> bool {
        BUILT_IN.iter().any(|built_in| {
            built_in.flavour == self.flavour && host(built_in.base_url) == host(&self.base_url)
        })
    }

    /// What to do when there is no key or it is refused.
    pub fn key_remedy(&self) -> String {
        let login = format!("`followspot login {}`", self.provider);
        match self.key_variables.first() {
            Some(variable) => format!("Set {variable} or run {login}."),
            None => format!(
                "Name its variable in `api_key_env` under [providers.{}] or run {login}.",
                self.provider
            ),
        }
    }

    /// The key, read afresh.
    ///
    /// # Errors
    /// `Auth` when one is needed and there is none; `BadRequest` when the address is unusable.
    pub fn authorise(&self, credentials: &Credentials) -> Result<Option<Secret>, ModelError> {
        let refuse = |kind, message| ModelError { kind, message, status: None, retry_after: None };
        if !self.base_url.starts_with("http://") && !self.base_url.starts_with("https://") {
            let message = format!(
                "The provider {} needs a base URL that starts with http:// or https://.",
                self.provider
            );
            return Err(refuse(ModelErrorKind::BadRequest, message));
        }
        match credentials.key(&self.provider, &self.key_variables) {
            None if self.needs_key => {
                let message = format!("There is no key for {}. {}", self.provider, self.key_remedy());
                Err(refuse(ModelErrorKind::Auth, message))
            }
            key => Ok(key),
        }
    }

    /// The words for its errors.
    pub fn wording(&self, secret: Option<Secret>) -> Wording {
        Wording { provider: self.provider.clone(), secret, key_remedy: self.key_remedy() }
    }
}

/// Brings an address as people write it into the form requests need.
fn tidy(base_url: &str, flavour: Flavour) -> String {
    let trimmed = base_url.trim().trim_end_matches('/');
    let trimmed = trimmed
        .strip_suffix("/chat/completions")
        .or_else(|| trimmed.strip_suffix("/messages"))
        .unwrap_or(trimmed);
    if flavour != Flavour::Ollama || trimmed.is_empty() {
        return trimmed.to_owned();
    }
    // Ollama's own variable holds `host`, `host:port` or a URL, never the path; a bind-all address is not one to call.
    let with_scheme = if trimmed.contains("://") { trimmed.to_owned() } else { format!("http://{trimmed}") };
    let with_scheme = with_scheme.replace("//0.0.0.0", "//127.0.0.1");
    let (scheme, rest) = with_scheme.split_once("://").unwrap_or(("http", &with_scheme));
    if rest.contains('/') {
        return with_scheme;
    }
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if has_port || scheme == "https" { "" } else { ":11434" };
    format!("{scheme}://{rest}{port}/v1")
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if let Some(end) = authority.strip_prefix('[').and_then(|address| address.find(']')) {
        return &authority[1..=end];
    }
    authority.split(':').next().unwrap_or(authority)
}

fn is_loopback(url: &str) -> bool {
    let host = host(url);
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(variables: &[(&str, &str)]) -> Credentials {
        let variables: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Credentials::with_variables(None, move |name| variables.get(name).cloned())
    }

    #[test]
    fn addresses_come_from_environment_then_configuration_then_the_table() {
        let mut configured = BTreeMap::new();
        configured.insert(
            "local".to_owned(),
            ProviderConfig {
                base_url: Some("http://127.0.0.1:8080/v1/".to_owned()),
                ..ProviderConfig::default()
            },
        );
        configured.insert(
            "proxy".to_owned(),
            ProviderConfig {
                base_url: Some("https://llm.example/anthropic".to_owned()),
                api_key_env: Some("PROXY_KEY".to_owned()),
                kind: Some(ProviderKind::Anthropic),
                ..ProviderConfig::default()
            },
        );
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, bool);
        let cases: &[Case<'_>] = &[
            ("deepseek", &[], "https://api.deepseek.com/chat/completions", true),
            (
                "openai",
                &[("OPENAI_BASE_URL", "http://localhost:9/v1/")],
                "http://localhost:9/v1/chat/completions",
                false,
            ),
            ("openai", &[("OPENAI_BASE_URL", "http://[::1]:9")], "http://[::1]:9/chat/completions", false),
            (
                "openai",
                &[("OPENAI_BASE_URL", "https://x.example/v1/chat/completions")],
                "https://x.example/v1/chat/completions",
                true,
            ),
            ("anthropic", &[], "https://api.anthropic.com/v1/messages", true),
            (
                "anthropic",
                &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/v1")],
                "http://127.0.0.1:1/v1/messages",
                false,
            ),
            ("ollama", &[], "http://127.0.0.1:11434/v1/chat/completions", false),
            ("ollama", &[("OLLAMA_HOST", "0.0.0.0")], "http://127.0.0.1:11434/v1/chat/completions", false),
            ("ollama", &[("OLLAMA_HOST", "box:7000")], "http://box:7000/v1/chat/completions", false),
            (
                "ollama",
                &[("OLLAMA_BASE_URL", "http://box:7000/v1")],
                "http://box:7000/v1/chat/completions",
                false,
            ),
            ("local", &[], "http://127.0.0.1:8080/v1/chat/completions", false),
            ("proxy", &[], "https://llm.example/anthropic/v1/messages", true),
        ];
        for (provider, variables, url, needs_key) in cases {
            let endpoint = resolve(provider, &configured, &credentials(variables)).unwrap();
            assert_eq!(
                (endpoint.url().as_str(), endpoint.needs_key),
                (*url, *needs_key),
                "{provider} {variables:?}"
            );
        }
        assert_eq!(resolve("nobody", &configured, &credentials(&[])), None);
    }

    #[test]
    fn a_missing_key_says_what_to_do() {
        let endpoint = resolve("openai", &BTreeMap::new(), &credentials(&[])).unwrap();
        let error = endpoint.authorise(&credentials(&[])).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Auth);
        assert_eq!(
            error.message,
            "There is no key for openai. Set OPENAI_API_KEY or run `followspot login openai`."
        );
        let key = endpoint.authorise(&credentials(&[("OPENAI_API_KEY", "sk-1")])).unwrap();
        assert_eq!(key, Some(Secret::new("sk-1")));
    }

    #[test]
    fn only_the_companys_host_is_official() {
        let official = resolve("openai", &BTreeMap::new(), &credentials(&[])).unwrap();
        let other =
            resolve("openai", &BTreeMap::new(), &credentials(&[("OPENAI_BASE_URL", "https://x.example")]))
                .unwrap();
        assert_eq!((official.is_official(), other.is_official()), (true, false));
    }
}
