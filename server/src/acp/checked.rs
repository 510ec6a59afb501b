//! Requests whose parameters are checked by us, so that a wrong one is answered with the field it is in.
//!
//! The SDK's own answer repeats the whole parameters instead, which may be large and may hold what the user typed.

use super::error::invalid_params;
use agent_client_protocol::{Error, JsonRpcMessage, JsonRpcNotification, JsonRpcRequest, UntypedMessage};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A message of type `M` with checked parameters.
#[derive(Clone, Debug)]
pub struct Checked<M>(pub M);

impl<M: JsonRpcMessage + DeserializeOwned> JsonRpcMessage for Checked<M> {
    fn matches_method(method: &str) -> bool {
        M::matches_method(method)
    }

    fn method(&self) -> &str {
        self.0.method()
    }

    fn to_untyped_message(&self) -> Result<UntypedMessage, Error> {
        self.0.to_untyped_message()
    }

    fn parse_message(_method: &str, params: &Value) -> Result<Self, Error> {
        parse(params).map(Self)
    }
}

impl<M: JsonRpcRequest + DeserializeOwned> JsonRpcRequest for Checked<M> {
    type Response = M::Response;
}

impl<M: JsonRpcNotification + DeserializeOwned> JsonRpcNotification for Checked<M> {}

fn parse<M: DeserializeOwned>(params: &Value) -> Result<M, Error> {
    let none = Value::Object(Map::new());
    let params = if params.is_null() { &none } else { params };
    serde_path_to_error::deserialize(params).map_err(|error| {
        let reason = error.inner().to_string();
        let path = error.path().to_string();
        // A field that is missing has no place of its own; its name is in the message.
        let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
        let field = match (path.as_str(), missing) {
            (".", Some((name, _))) => name.to_owned(),
            (".", None) => "params".to_owned(),
            (path, Some((name, _))) => format!("{path}.{name}"),
            (path, None) => path.to_owned(),
        };
        invalid_params(&field, &reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::{NewSessionRequest, PromptRequest};
    use serde_json::json;

    fn field<M: DeserializeOwned + std::fmt::Debug>(params: Value) -> String {
        let error = parse::<M>(&params).unwrap_err();
        assert_eq!(i32::from(error.code), -32602);
        error.data.unwrap()["field"].as_str().unwrap().to_owned()
    }

    #[test]
    fn the_field_that_is_wrong_is_named() {
        assert_eq!(field::<NewSessionRequest>(json!({ "cwd": 5, "mcpServers": [] })), "cwd");
        assert_eq!(field::<NewSessionRequest>(json!({ "mcpServers": [] })), "cwd");
        assert_eq!(field::<NewSessionRequest>(json!([])), "params");
        let prompt = json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": "a" }, { "type": "text", "text": 1.5 }] });
        assert!(field::<PromptRequest>(prompt).starts_with("prompt[1]"));
    }
}
