//! The identity of this boot. Reading the time itself is the caller's: it comes in as an argument.

use std::io;

/// The kernel's boot id: 36 characters, another after every reboot.
///
/// A journal that names the boot that wrote it can tell a crash of the program from a crash of the
/// machine, after which unsynced data is gone.
///
/// # Errors
///
/// `NotFound` and the like where `/proc` is not mounted.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_a_stable_uuid() {
        let id = super::boot_id().unwrap();
        assert_eq!(id.len(), 36);
        assert_eq!(id, super::boot_id().unwrap());
    }
}
