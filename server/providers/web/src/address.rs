//! Which addresses a page may live at: those of the public internet, and those the user named.
//!
//! Called before each request (a host that is an address never reaches a resolver) and by `resolver.rs` for each name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the user opened: `[web] allow_private`.
#[derive(Debug, Default)]
pub(crate) struct AllowList {
    /// Host names in lower case, without a dot at the end.
    hosts: Vec<String>,
    /// Addresses with the number of leading bits that count.
    ranges: Vec<(IpAddr, u8)>,
}

impl AllowList {
    /// The list from hosts, addresses and CIDR ranges. The configuration has checked their shape.
    pub fn new(entries: &[String]) -> Self {
        let mut list = Self::default();
        for entry in entries {
            let entry = entry.trim();
            let (address, bits) = entry.split_once('/').map_or((entry, None), |(a, bits)| (a, Some(bits)));
            match address.trim_matches(['[', ']']).parse::<IpAddr>() {
                Ok(address) => {
                    let full = if address.is_ipv4() { 32 } else { 128 };
                    // A range that cannot be read must not become wider than it was meant.
                    let bits = bits.map_or(Some(full), |bits| bits.parse().ok().filter(|bits| *bits <= full));
                    list.ranges.extend(bits.map(|bits| (address, bits)));
                }
                Err(_) => list.hosts.push(plain(entry)),
            }
        }
        list
    }

    /// Whether the user opened every address of this host name.
    pub fn opens_host(&self, host: &str) -> bool {
        self.hosts.contains(&plain(host))
    }

    /// Whether a page may be fetched from this address.
    pub fn permits(&self, address: IpAddr) -> bool {
        let canonical = address.to_canonical();
        is_public(canonical)
            || self.ranges.iter().any(|(range, bits)| {
                contains(*range, *bits, address) || contains(range.to_canonical(), *bits, canonical)
            })
    }
}

fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_lowercase()
}

fn contains(range: IpAddr, bits: u8, address: IpAddr) -> bool {
    match (range, address) {
        (IpAddr::V4(range), IpAddr::V4(address)) => {
            bits == 0 || (bits <= 32 && (range.to_bits() ^ address.to_bits()) >> (32 - bits) == 0)
        }
        (IpAddr::V6(range), IpAddr::V6(address)) => {
            bits == 0 || (bits <= 128 && (range.to_bits() ^ address.to_bits()) >> (128 - bits) == 0)
        }
        _ => false,
    }
}

/// Ranges that are not the public internet, by the registries of special-purpose addresses.
const SPECIAL_V4: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// As [`SPECIAL_V4`], inside 2000::/3; everything outside is special anyway.
const SPECIAL_V6: &[(Ipv6Addr, u8)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => !SPECIAL_V4.iter().any(|(range, bits)| contains((*range).into(), *bits, address)),
        IpAddr::V6(v6) => match carried(v6) {
            Some(v4) => is_public(v4.into()),
            None => {
                v6.segments()[0] & 0xe000 == 0x2000
                    && !SPECIAL_V6.iter().any(|(range, bits)| contains((*range).into(), *bits, address))
            }
        },
    }
}

/// The IPv4 address that a translated one (NAT64, 6to4) leads to.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    if bits >> 32 == 0x0064_ff9b_0000_0000_0000_0000 {
        return Some(Ipv4Addr::from_bits(bits as u32));
    }
    (bits >> 112 == 0x2002).then(|| Ipv4Addr::from_bits((bits >> 80) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(entries: &[&str], address: &str) -> bool {
        let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        AllowList::new(&entries).permits(address.parse().unwrap())
    }

    #[test]
    fn only_public_addresses_are_permitted() {
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert!(permits(&[], public), "{public}");
        }
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "100::1",
        ] {
            assert!(!permits(&[], private), "{private}");
        }
    }

    #[test]
    fn what_the_user_names_is_permitted_and_nothing_beside_it() {
        let cases = [
            (["127.0.0.1"], "127.0.0.1", true),
            (["127.0.0.1"], "127.0.0.2", false),
            (["127.0.0.1"], "::ffff:127.0.0.1", true),
            (["10.1.0.0/16"], "10.1.200.3", true),
            (["10.1.0.0/16"], "10.2.0.1", false),
            (["0.0.0.0/0"], "192.168.0.1", true),
            (["0.0.0.0/0"], "::1", false),
            (["fd00::/8"], "fd00:1::5", true),
            (["fd00::/8"], "fe80::1", false),
            (["::1"], "::1", true),
            (["10.0.0.0/99"], "10.0.0.1", false),
            (["localhost"], "127.0.0.1", false),
        ];
        for (entries, address, expected) in cases {
            assert_eq!(permits(&entries, address), expected, "{entries:?} {address}");
        }
    }

    #[test]
    fn hosts_match_whole_and_in_any_case() {
        let list = AllowList::new(&["LocalHost".to_owned(), "wiki.corp".to_owned()]);
        let opened: Vec<bool> = ["localhost", "LOCALHOST.", "wiki.corp", "x.wiki.corp", "corp", "127.0.0.1"]
            .map(|host| list.opens_host(host))
            .to_vec();
        assert_eq!(opened, [true, true, true, false, false, false]);
    }
}
