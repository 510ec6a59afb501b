//! Names to addresses, private ones left out.
//!
//! The HTTP client connects only to what comes out of here, so an address cannot change between check and use.

use crate::address::AllowList;
use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Finds the addresses of a host.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Every address of this name, best first.
    ///
    /// # Errors
    /// The name is not known, or nobody could be asked.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's name resolution.
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// A name leads only to addresses that must not be reached.
#[derive(Debug, thiserror::Error)]
#[error("{host} is at {address}, which is not on the public internet")]
pub(crate) struct BlockedName {
    /// The name.
    pub host: String,
    /// One of its addresses.
    pub address: IpAddr,
}

/// A resolver that leaves out what must not be reached.
pub(crate) struct GuardedResolver {
    pub resolver: Arc<dyn Resolver>,
    pub allow: Arc<AllowList>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, allow) = (self.resolver.clone(), self.allow.clone());
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let mut addresses = resolver.resolve(&host).await?;
            let first = addresses.first().copied();
            if !allow.opens_host(&host) {
                addresses.retain(|address| allow.permits(*address));
            }
            match (addresses.is_empty(), first) {
                (true, Some(address)) => Err(BlockedName { host, address }.into()),
                (true, None) => Err(io::Error::other(format!("{host} has no address")).into()),
                (false, _) => {
                    let found: Addrs =
                        Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
                    Ok(found)
                }
            }
        })
    }
}
