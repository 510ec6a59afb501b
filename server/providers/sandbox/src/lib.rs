//! provider-sandbox
