//! Networks that come along.

/// The file of `topologies/` of that name.
macro_rules! topology {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../topologies/", $name, ".toml")))
    };
}

/// The networks that come along: names, and descriptions for [`Network::from_toml`](super::Network::from_toml).
#[must_use]
pub fn shipped() -> &'static [(&'static str, &'static str)] {
    &[
        topology!("pair"),
        topology!("dumbbell"),
        topology!("transatlantic"),
        topology!("ultrascience"),
        topology!("triangle"),
        topology!("abilene"),
        topology!("geant"),
    ]
}
