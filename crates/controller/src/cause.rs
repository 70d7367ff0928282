//! Causes as agents say them, and as the ledger has them: the same words, of two crates that do not know each other.

/// Both ways of one list, each complete by its `match`.
macro_rules! the_same {
    ($($cause:ident),* $(,)?) => {
        /// What an agent said, in the words of the ledger.
        pub(crate) fn known(said: api::agent::Cause) -> ledger::Cause {
            match said {
                $(api::agent::Cause::$cause => ledger::Cause::$cause,)*
            }
        }

        /// What the ledger has, in the words of the API.
        pub(crate) fn shown(known: ledger::Cause) -> api::agent::Cause {
            match known {
                $(ledger::Cause::$cause => api::agent::Cause::$cause,)*
                ledger::Cause::GaveWay => api::agent::Cause::Stopped,
            }
        }
    };
}

the_same!(
    NotGranted, NotFound, Permission, Exists, NoSpace, Storage, Changed, Corrupt, Network, Refused, Busy, Leaving,
    Stopped, Other,
);
