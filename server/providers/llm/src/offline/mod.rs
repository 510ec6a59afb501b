//! stub
use protocol::model::*;
pub const PROVIDER: &str = "offline";
pub fn model() -> ModelRef {
    ModelRef { provider: PROVIDER.into(), model: "offline".into() }
}
pub fn info() -> ModelInfo {
    crate::catalogue::describe(&model(), None, None)
}
pub fn answer(_r: &ModelRequest) -> crate::http::Chunks {
    Box::pin(futures::stream::empty())
}
