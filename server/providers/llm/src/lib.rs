//! provider-llm
