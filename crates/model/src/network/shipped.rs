//! Networks that come along.

/// The networks that come along: names and descriptions for [`Network::from_toml`](super::Network::from_toml).
#[must_use]
pub fn shipped() -> &'static [(&'static str, &'static str)] {
    &[("pair", include_str!("../../../../topologies/pair.toml"))]
}
