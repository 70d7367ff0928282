//! Reads, compares, applies step by step, reads back, and rolls back.
//!
//! Nothing is remembered outside of the kernel, so whatever was interrupted, also by `kill -9`, is made good by the next run: it finds by the
//! marks what there is.

use std::fmt;
use std::io;

use sys::netlink::Refused;

use crate::difference::{Items, Step, steps};
use crate::found::{Found, Refusal};

/// Where steps are done: the kernel, or what stands for it in tests.
pub trait Kernel {
    /// What is there.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&mut self) -> Result<Found, Refused>;

    /// Does a step, as a whole or not at all. `found` is what was there when the run began.
    ///
    /// # Errors
    /// When it cannot be done.
    fn act(&mut self, step: &Step, found: &Found) -> Result<(), Refused>;
}

/// What was done, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The steps, in their order.
    pub steps: Vec<Step>,
}

/// Why what is wished is not there.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The kernel does not say what there is.
    #[error("cannot read what is there")]
    Read(#[source] Refused),
    /// Nothing was begun.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A step could not be done.
    #[error("cannot {step}; {back}")]
    Step {
        /// Which.
        step: Box<Step>,
        /// What became of those before it.
        back: RolledBack,
        /// Why.
        #[source]
        source: Refused,
    },
    /// All steps were done, and what is read back is something else.
    #[error("the kernel took every step, but what it has is another thing (to {difference}); {back}")]
    Differs {
        /// The first step that would still be needed.
        difference: Box<Step>,
        /// What became of all steps.
        back: RolledBack,
    },
    /// All steps were done, and cannot be read back.
    #[error("cannot read back what was done; {back}")]
    ReadBack {
        /// What became of all steps.
        back: RolledBack,
        /// Why.
        #[source]
        source: Refused,
    },
}

impl DriverError {
    /// Whether nothing was begun, or all of it was taken back.
    #[must_use]
    pub fn left_as_it_was(&self) -> bool {
        match self {
            DriverError::Read(_) | DriverError::Refused(_) => true,
            DriverError::Step { back, .. } | DriverError::Differs { back, .. } | DriverError::ReadBack { back, .. } => {
                back.failed.is_empty()
            }
        }
    }

    /// Whether it is for lack of a privilege.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        let forbidden = |refused: &Refused| refused.source.kind() == io::ErrorKind::PermissionDenied;
        match self {
            DriverError::Read(source) | DriverError::Step { source, .. } | DriverError::ReadBack { source, .. } => {
                forbidden(source)
            }
            DriverError::Refused(_) | DriverError::Differs { .. } => false,
        }
    }
}

/// What became of the steps that were done.
#[derive(Debug, Default)]
pub struct RolledBack {
    /// How many were taken back.
    pub count: usize,
    /// Those that could not be, and why.
    pub failed: Vec<(Step, Refused)>,
}

impl fmt::Display for RolledBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count, self.failed.as_slice()) {
            (0, []) => f.write_str("nothing was changed before"),
            (1, []) => f.write_str("the step before it was taken back"),
            (count, []) => write!(f, "the {count} steps that were done are taken back"),
            (_, [(step, why), ..]) => {
                let count = self.failed.len();
                write!(
                    f,
                    "{count} steps could not be taken back, the first to {step} ({why}): run `longhaul driver undo`"
                )
            }
        }
    }
}

/// What would be done.
///
/// # Errors
/// When it cannot be read what is there, or something stands in the way.
pub fn plan(kernel: &mut impl Kernel, wish: &Items) -> Result<Done, DriverError> {
    let found = kernel.read().map_err(DriverError::Read)?;
    found.allows(wish)?;
    Ok(Done { steps: steps(&found.items, wish) })
}

/// Makes what is there what is wished: all of it, or nothing.
///
/// # Errors
/// When something stands in the way, a step fails or what is read back is something else. Then all is as it was, unless the error says otherwise.
pub fn apply(kernel: &mut impl Kernel, wish: &Items) -> Result<Done, DriverError> {
    let found = kernel.read().map_err(DriverError::Read)?;
    found.allows(wish)?;
    let steps = steps(&found.items, wish);
    for (count, step) in steps.iter().enumerate() {
        if let Err(source) = kernel.act(step, &found) {
            let back = roll_back(kernel, &steps[..count], &found);
            return Err(DriverError::Step { step: Box::new(step.clone()), back, source });
        }
    }
    if steps.is_empty() {
        return Ok(Done { steps });
    }
    match kernel.read() {
        Err(source) => Err(DriverError::ReadBack { back: roll_back(kernel, &steps, &found), source }),
        Ok(now) => match crate::difference::steps(&now.items, wish).into_iter().next() {
            Some(difference) => {
                let back = roll_back(kernel, &steps, &found);
                Err(DriverError::Differs { difference: Box::new(difference), back })
            }
            None => Ok(Done { steps }),
        },
    }
}

/// Takes steps back, the last first; goes on behind one that cannot be.
fn roll_back(kernel: &mut impl Kernel, done: &[Step], found: &Found) -> RolledBack {
    let mut back = RolledBack::default();
    for step in done.iter().rev().map(|step| step.clone().inverse()) {
        match kernel.act(&step, found) {
            Ok(()) => back.count += 1,
            // An interface that vanishes takes along what was on it.
            Err(_) if is_gone(kernel, &step) => back.count += 1,
            Err(why) => back.failed.push((step, why)),
        }
    }
    back
}

fn is_gone(kernel: &mut impl Kernel, step: &Step) -> bool {
    let Step::Remove(item) = step else { return false };
    kernel.read().is_ok_and(|found| !found.items.contains_key(&item.key()))
}

/// What of ours is there without some interfaces, or nothing: what is wished when something is undone.
#[must_use]
pub fn without(found: &Found, devices: &[String]) -> Items {
    if devices.is_empty() {
        return Items::new();
    }
    let stays = |device: Option<&str>| device.is_none_or(|device| !devices.iter().any(|gone| gone == device));
    let kept = found.items.iter().filter(|(_, item)| stays(item.shapes()));
    kept.map(|(key, item)| (key.clone(), item.clone())).collect()
}

#[cfg(test)]
mod tests;
