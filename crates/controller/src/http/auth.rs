//! From the text of a token to who asks.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use axum::http::{HeaderMap, header};

use crate::app::TokenDigest;

/// Bytes of a token's text; none of ours is as long.
const TOKEN_MAX: usize = 256;

/// The digest of the bearer token, if there is one that could be ours.
pub(super) fn bearer(headers: &HeaderMap) -> Option<TokenDigest> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let fits = scheme.eq_ignore_ascii_case("bearer") && (1..=TOKEN_MAX).contains(&token.len());
    fits.then(|| token_digest(token))
}

/// What is kept of a token.
#[must_use]
pub fn token_digest(token: &str) -> TokenDigest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

/// The one of these that has the digest. Looks at all of them, each in constant time, so that the time of the answer does not
/// tell how much of a guess was right.
pub fn find_constant_time<'a, T>(
    digest: &TokenDigest,
    all: impl IntoIterator<Item = (&'a TokenDigest, T)>,
) -> Option<T> {
    let mut found = None;
    for (known, thing) in all {
        if verify_slices_are_equal(known, digest).is_ok() {
            found = Some(thing);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<TokenDigest> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
        bearer(&headers)
    }

    #[test]
    fn a_token_is_found_by_its_digest_alone() {
        let (a, b) = (token_digest("a"), token_digest("b"));
        let known = [(&a, 1), (&b, 2)];
        assert_eq!(find_constant_time(&read("Bearer b").expect("a token"), known), Some(2));
        assert_eq!(find_constant_time(&read("bearer  a ").expect("a token"), known), Some(1));
        assert_eq!(find_constant_time(&token_digest("c"), known), None);
    }

    #[test]
    fn what_is_no_bearer_token_is_none() {
        for bad in ["", "Bearer", "Bearer ", "Basic YTpi", "a", &format!("Bearer {}", "x".repeat(TOKEN_MAX + 1))] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
