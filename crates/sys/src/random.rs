//! The kernel's random bytes.

use std::io;

use rustix::rand::GetRandomFlags;

/// Fills `bytes` from `getrandom(2)`: fit for keys and nonces.
///
/// # Errors
///
/// Only what the kernel says; it waits for its pool at early boot instead of failing.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn fills_all_of_it_differently_each_time() {
        let (mut a, mut b) = (vec![0u8; 100_000], vec![0u8; 100_000]);
        super::fill(&mut a).unwrap();
        super::fill(&mut b).unwrap();
        assert_ne!(a, b);
        // The chance that the last 16 bytes are all zero is 2^-128.
        assert!(a[a.len() - 16..].iter().any(|&x| x != 0));
        super::fill(&mut []).unwrap();
    }
}
