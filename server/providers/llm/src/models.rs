//! `Models` over every provider: which there are, which one starts, and one request to one of them.
//!
//! Called by the agent. Holds configuration only; keys and addresses are read for each request.

use crate::anthropic::{self, MessageDecoder, MessagesRequest};
use crate::catalogue;
use crate::content::{Images, check_images};
use crate::credentials::Credentials;
use crate::endpoint::{Endpoint, Flavour, ProviderConfig, built_in_providers, resolve};
use crate::history_repair::repair;
use crate::http::{Http, Post};
use crate::offline;
use crate::openai::{self, ChatDecoder, ChatRequest};
use async_trait::async_trait;
use futures::stream::BoxStream;
use protocol::model::{ModelChunk, ModelInfo, ModelRef, ModelRequest};
use services::attachments::Attachments;
use services::model::{ModelError, ModelErrorKind, Models};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Names the model of a session; outranks the configuration.
const MODEL_VARIABLE: &str = "FOLLOWSPOT_MODEL";

/// `[model]` and `[providers.*]` of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmConfig {
    /// `provider/model`; `None` is the first provider with a key.
    pub default: Option<String>,
    /// Longest silence between two events of an answer. Keep-alive bytes do not break it.
    pub idle_timeout: Duration,
    /// Providers of the user's and changes to built-in ones, by name.
    pub providers: BTreeMap<String, ProviderConfig>,
}

impl Default for LlmConfig {
    fn default() -> Self {
        Self { default: None, idle_timeout: Duration::from_secs(300), providers: BTreeMap::new() }
    }
}

/// Every model that can be chosen.
pub struct LlmModels {
    config: LlmConfig,
    credentials: Credentials,
    attachments: Option<Arc<dyn Attachments>>,
    http: Http,
}

impl LlmModels {
    /// Models under `config`; images are sent when `attachments` has their bytes. Costs nothing.
    pub fn new(
        config: LlmConfig,
        credentials: Credentials,
        attachments: Option<Arc<dyn Attachments>>,
    ) -> Self {
        Self { config, credentials, attachments, http: Http::default() }
    }

    fn endpoint(&self, provider: &str) -> Option<Endpoint> {
        resolve(provider, &self.config.providers, &self.credentials)
    }

    fn has_key(&self, endpoint: &Endpoint) -> bool {
        self.credentials.key(&endpoint.provider, &endpoint.key_variables).is_some()
    }

    /// What a person wrote as a model: `provider/model`, a provider alone, or the id of a listed model.
    fn parse(&self, text: &str) -> ModelRef {
        if text == offline::PROVIDER {
            return offline::model();
        }
        if let Some(model) = ModelRef::parse(text) {
            return model;
        }
        if let Some(model) = catalogue::listed(text).next() {
            return model;
        }
        let provider = catalogue::provider_of(text).unwrap_or(text);
        let model = if provider == text { "" } else { text };
        ModelRef { provider: provider.to_owned(), model: model.to_owned() }
    }

    /// The endpoint of a model, or who there is instead.
    fn endpoint_of(&self, model: &ModelRef) -> Result<Endpoint, ModelError> {
        let refuse = |message| ModelError {
            kind: ModelErrorKind::BadRequest,
            message,
            status: None,
            retry_after: None,
        };
        if model.model.is_empty() {
            return Err(refuse(format!(
                "`{}` is not a model. Write provider/model, for instance deepseek/deepseek-v4-flash.",
                model.provider
            )));
        }
        self.endpoint(&model.provider).ok_or_else(|| {
            let mut names: BTreeSet<&str> = built_in_providers().collect();
            names.extend(self.config.providers.keys().map(String::as_str));
            names.insert(offline::PROVIDER);
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            refuse(format!("There is no provider named {}. Known: {names}.", model.provider))
        })
    }
}

#[async_trait]
impl Models for LlmModels {
    fn list(&self) -> Vec<ModelInfo> {
        let default = self.default_model();
        let usable = built_in_providers().filter(|provider| {
            self.endpoint(provider).is_some_and(|endpoint| {
                // What an imitation of OpenAI's service offers is not OpenAI's list.
                let serves_list = endpoint.flavour != Flavour::OpenAi || endpoint.is_official();
                serves_list && (self.has_key(&endpoint) || !endpoint.needs_key)
            })
        });
        let mut seen = BTreeSet::new();
        std::iter::once(default)
            .chain(usable.flat_map(catalogue::listed))
            .chain([offline::model()])
            .filter(|model| seen.insert(model.to_string()))
            .map(|model| self.info(&model))
            .collect()
    }

    fn info(&self, model: &ModelRef) -> ModelInfo {
        if model.provider == offline::PROVIDER {
            return offline::info();
        }
        let endpoint = self.endpoint(&model.provider);
        catalogue::describe(model, endpoint.as_ref(), self.config.providers.get(&model.provider))
    }

    fn default_model(&self) -> ModelRef {
        let chosen = self.credentials.variable(MODEL_VARIABLE).or_else(|| self.config.default.clone());
        if let Some(text) = chosen {
            return self.parse(text.trim());
        }
        built_in_providers()
            .filter(|provider| self.endpoint(provider).is_some_and(|endpoint| self.has_key(&endpoint)))
            .find_map(|provider| catalogue::listed(provider).next())
            .unwrap_or_else(offline::model)
    }

    fn check(&self, model: &ModelRef) -> Result<(), ModelError> {
        if model.provider == offline::PROVIDER {
            return Ok(());
        }
        self.endpoint_of(model)?.authorise(&self.credentials).map(|_| ())
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelChunk, ModelError>>, ModelError> {
        if request.model.provider == offline::PROVIDER {
            return Ok(offline::answer(&request));
        }
        let endpoint = self.endpoint_of(&request.model)?;
        let secret = endpoint.authorise(&self.credentials)?;
        let info = self.info(&request.model);
        check_images(&request.messages, &info)?;
        let entries = repair(&request.messages);
        let images =
            Images::load(&entries, info.takes_images == Some(true), self.attachments.as_deref()).await;
        let wording = endpoint.wording(secret.clone());
        let post = |headers| Post {
            url: endpoint.url(),
            is_loopback: endpoint.is_loopback(),
            headers,
            idle: self.config.idle_timeout,
            wording: wording.clone(),
        };
        if endpoint.flavour == Flavour::Anthropic {
            let body = MessagesRequest::new(&request, &entries, &images, &info);
            let decoder = MessageDecoder::new(wording.clone());
            return self.http.stream(post(anthropic::headers(secret.as_ref())), &body, decoder).await;
        }
        let body = ChatRequest::new(&request, &entries, &images, &endpoint, &info);
        let decoder = ChatDecoder::new(wording.clone(), endpoint.flavour != Flavour::DeepSeek);
        let headers = openai::headers(secret.as_ref(), endpoint.flavour);
        self.http.stream(post(headers), &body, decoder).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(default: Option<&str>, variables: &'static [(&'static str, &'static str)]) -> LlmModels {
        let credentials = Credentials::with_variables(None, move |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        let local = ProviderConfig {
            base_url: Some("http://127.0.0.1:8080/v1".to_owned()),
            ..ProviderConfig::default()
        };
        let config = LlmConfig {
            default: default.map(str::to_owned),
            providers: BTreeMap::from([("local".to_owned(), local)]),
            ..LlmConfig::default()
        };
        LlmModels::new(config, credentials, None)
    }

    #[test]
    fn the_first_model_is_the_variable_then_the_setting_then_a_provider_with_a_key() {
        type Case = (Option<&'static str>, &'static [(&'static str, &'static str)], &'static str);
        let cases: &[Case] = &[
            (None, &[], "offline/offline"),
            (None, &[("DEEPSEEK_API_KEY", "k")], "deepseek/deepseek-v4-flash"),
            (None, &[("ANTHROPIC_API_KEY", "k")], "anthropic/claude-sonnet-5"),
            (None, &[("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")], "openai/gpt-5.6-terra"),
            (None, &[("DEEPSEEK_API_KEY", "  ")], "offline/offline"),
            (Some("local/qwen"), &[("DEEPSEEK_API_KEY", "k")], "local/qwen"),
            (Some("local/qwen"), &[("FOLLOWSPOT_MODEL", "openai/x/y")], "openai/x/y"),
            (None, &[("FOLLOWSPOT_MODEL", "offline"), ("OPENAI_API_KEY", "k")], "offline/offline"),
            (None, &[("FOLLOWSPOT_MODEL", "anthropic")], "anthropic/claude-sonnet-5"),
            (None, &[("FOLLOWSPOT_MODEL", "deepseek-v4-pro")], "deepseek/deepseek-v4-pro"),
        ];
        for (default, variables, expected) in cases {
            assert_eq!(
                models(*default, variables).default_model().to_string(),
                *expected,
                "{default:?} {variables:?}"
            );
        }
    }

    #[test]
    fn the_list_starts_with_the_default_and_names_only_what_can_be_used() {
        let ids = |models: LlmModels| -> Vec<String> {
            models.list().iter().map(|info| info.id.to_string()).collect()
        };
        assert_eq!(ids(models(None, &[])), ["offline/offline"]);
        assert_eq!(
            ids(models(None, &[("DEEPSEEK_API_KEY", "k"), ("FOLLOWSPOT_MODEL", "deepseek/deepseek-v4-pro")])),
            [
                "deepseek/deepseek-v4-pro",
                "deepseek/deepseek-v4-flash",
                "deepseek/deepseek-v4-flash-vision-exp",
                "offline/offline"
            ]
        );
        let compatible = &[
            ("OPENAI_API_KEY", "k"),
            ("OPENAI_BASE_URL", "http://x.example/v1"),
            ("FOLLOWSPOT_MODEL", "openai/m"),
        ];
        assert_eq!(ids(models(None, compatible)), ["openai/m", "offline/offline"]);
    }

    #[test]
    fn a_check_says_what_to_do() {
        let check = |model: &str, variables| {
            let models = models(None, variables);
            models.check(&models.parse(model)).map_err(|error| (error.kind, error.message))
        };
        assert_eq!(check("offline/offline", &[]), Ok(()));
        assert_eq!(check("local/qwen", &[]), Ok(()));
        assert_eq!(check("ollama/qwen", &[]), Ok(()));
        assert_eq!(check("openai/m", &[("OPENAI_BASE_URL", "http://localhost:1/v1")]), Ok(()));
        let auth = "There is no key for deepseek. Set DEEPSEEK_API_KEY or run `followspot login deepseek`.";
        assert_eq!(check("deepseek/deepseek-v4-flash", &[]), Err((ModelErrorKind::Auth, auth.to_owned())));
        let unknown = "There is no provider named nobody. Known: anthropic, deepseek, local, offline, ollama, openai, openrouter.";
        assert_eq!(check("nobody/m", &[]), Err((ModelErrorKind::BadRequest, unknown.to_owned())));
        let unclear = "`gpt` is not a model. Write provider/model, for instance deepseek/deepseek-v4-flash.";
        assert_eq!(check("gpt", &[]), Err((ModelErrorKind::BadRequest, unclear.to_owned())));
    }
}
