//! Where a running twin leaves what others must know: a directory of its own.
//!
//! | file | what |
//! |---|---|
//! | `network.toml` | the network, scaled, as it was brought up |
//! | `twin.json` | [`Record`] |
//! | `lock` | locked by the emulator as long as it lives; its process id, for people |
//! | `control` | its socket |
//! | `changes.json` | [`Changes`], once there are any |
//! | `changes.lock` | locked by who changes them |
//! | `hosts` | names and addresses, in the form of `/etc/hosts` |
//! | `log` | what the emulator said |

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use model::network::{Direction, LinkIndex, Network};
pub use model::scenario::Driver;
use serde::{Deserialize, Serialize};
use sys::file::{Lock, LockMode, lock};
use sys::process::Process;

/// Holds a directory for each twin.
pub const ROOT: &str = "/run/longhaul/twin";
/// Longest name of a twin: that of a network.
pub const NAME_MAX: usize = model::network::limits::NAME_MAX;

/// How long a change may take: some calls of `tc`.
const CHANGE_MAX: Duration = Duration::from_secs(10);
/// How often one that waits for another looks.
const CHANGE_LOOK: Duration = Duration::from_millis(10);

/// What `twin link` has changed where netem carries the packets: the emulator knows what it does by itself.
pub type Changes = BTreeMap<LinkIndex, [Direction; 2]>;

/// How a twin was brought up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What carries its packets.
    pub driver: Driver,
    /// All that is random follows from it.
    pub seed: u64,
    /// What rates were multiplied by, as written.
    pub scale: String,
}

/// The directory of one twin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    name: String,
    dir: PathBuf,
}

impl Place {
    /// The directory of the twin `name`, whether or not it is there.
    ///
    /// # Errors
    /// When that is no name for a twin.
    pub fn of(name: &str) -> Result<Place> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fits) || name.starts_with('-') {
            bail!("`{name}` cannot name a twin: use up to {NAME_MAX} letters, digits, `-` and `_`");
        }
        Ok(Place { name: name.to_owned(), dir: Path::new(ROOT).join(name) })
    }

    /// All there are, by name.
    ///
    /// # Errors
    /// When the directory cannot be read; that there is none is no error.
    pub fn all() -> Result<Vec<Place>> {
        let entries = match fs::read_dir(ROOT) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| format!("cannot read {ROOT}"))?,
        };
        let mut places = Vec::new();
        for entry in entries {
            places.extend(entry?.file_name().to_str().and_then(|name| Place::of(name).ok()));
        }
        places.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(places)
    }

    /// Makes the directory.
    ///
    /// # Errors
    /// When a twin of this name is there already.
    pub fn make(&self) -> Result<()> {
        fs::create_dir_all(ROOT).with_context(|| format!("cannot make {ROOT}: a twin needs root"))?;
        match DirBuilder::new().mode(0o755).create(&self.dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(anyhow!(
                "the twin `{0}` is there already: `longhaul twin down {0}` removes it, --name gives this one another name",
                self.name
            )),
            made => made.with_context(|| format!("cannot make {}", self.dir.display())),
        }
    }

    /// The name of the twin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file in the directory.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Whether the directory is there.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.dir.is_dir()
    }

    /// Writes how it was brought up.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, network: &Network, record: &Record) -> Result<()> {
        fs::write(self.file("network.toml"), network.to_toml())?;
        fs::write(self.file("twin.json"), serde_json::to_vec(record)?)?;
        Ok(())
    }

    /// Reads how it was brought up.
    ///
    /// # Errors
    /// When there is no such twin, or it was left half made.
    pub fn read(&self) -> Result<(Network, Record)> {
        if !self.exists() {
            return Err(self.absent());
        }
        let half_made = || format!("the twin `{0}` was left half made: `longhaul twin down {0}` removes it", self.name);
        let path = self.file("network.toml");
        let text = fs::read_to_string(&path).with_context(half_made)?;
        let network = Network::from_toml(&text, &path.to_string_lossy())?;
        let record = serde_json::from_slice(&fs::read(self.file("twin.json")).with_context(half_made)?)?;
        Ok((network, record))
    }

    /// Changes what was changed; who reads meanwhile sees what was before, and who changes waits until this is done. Nothing is
    /// written if `change` fails.
    ///
    /// # Errors
    /// What the file system says, that of `change`, or that another takes too long.
    pub fn update_changes(&self, change: impl FnOnce(&mut Changes) -> Result<()>) -> Result<()> {
        // Not the file itself, which is replaced. The lock ends with the file.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(self.file("changes.lock"))?;
        let until = Instant::now() + CHANGE_MAX;
        while lock(&file, LockMode::Exclusive)? != Lock::Taken {
            if Instant::now() > until {
                bail!("another change of links of the twin `{}` takes longer than {CHANGE_MAX:?}", self.name);
            }
            sleep(CHANGE_LOOK);
        }
        let mut changes = self.changes()?;
        change(&mut changes)?;
        let new = self.file("changes.json.new");
        fs::write(&new, serde_json::to_vec(&changes)?)?;
        Ok(fs::rename(new, self.file("changes.json"))?)
    }

    /// Reads what was changed.
    ///
    /// # Errors
    /// What the file system says; that nothing was is no error.
    pub fn changes(&self) -> Result<Changes> {
        match fs::read(self.file("changes.json")) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Changes::new()),
            text => Ok(serde_json::from_slice(&text?)?),
        }
    }

    /// That there is no such twin, and which there are.
    #[must_use]
    pub fn absent(&self) -> anyhow::Error {
        let others = Place::all().unwrap_or_default();
        let others: Vec<&str> = others.iter().map(Place::name).collect();
        match others.is_empty() {
            true => anyhow!("there is no twin `{}`, nor any other: `longhaul twin up` makes one", self.name),
            false => anyhow!("there is no twin `{}`; there are: {}", self.name, others.join(", ")),
        }
    }

    /// Locks the twin for the emulator that calls; the lock ends with the file.
    ///
    /// # Errors
    /// When another emulator has it.
    pub fn lock(&self) -> Result<File> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(self.file("lock"))?;
        match lock(&file, LockMode::Exclusive)? {
            Lock::Taken => Ok(file),
            Lock::Held { .. } => bail!("the twin `{}` has its emulator already", self.name),
        }
    }

    /// Whether its emulator lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.holder().is_some()
    }

    /// Its emulator, if it lives: the process that has the lock, and no other that has got its id since.
    ///
    /// # Errors
    /// When the kernel does not tell who has the lock.
    pub fn emulator(&self) -> Result<Option<Process>> {
        let Some(by) = self.holder() else { return Ok(None) };
        let Some(pid) = by else {
            if !self.is_alive() {
                // It ended between the two looks of which an answer is made.
                return Ok(None);
            }
            let lock = self.file("lock");
            let lock = lock.display();
            bail!("the kernel does not tell which process has locked {lock}: find it with `fuser {lock}` and end it");
        };
        let process = Process::open(pid);
        // It had the lock when it was asked for, and has it now that it is held: it had the id in between.
        if self.holder() != Some(Some(pid)) {
            return Ok(None);
        }
        Ok(Some(process.with_context(|| format!("cannot reach the emulator, process {pid}"))?))
    }

    /// Who has the lock, if anybody has it, and as far as the kernel tells.
    fn holder(&self) -> Option<Option<u32>> {
        let file = File::open(self.file("lock")).ok()?;
        // A lock that is got goes with the file.
        match lock(&file, LockMode::Shared) {
            Ok(Lock::Held { by }) => Some(by),
            Ok(Lock::Taken) | Err(_) => None,
        }
    }

    /// Removes the directory.
    ///
    /// # Errors
    /// What the file system says; that it is gone is no error.
    pub fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.with_context(|| format!("cannot remove {}", self.dir.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for name in ["", "..", "a/b", "-x", "a b", "ü", &"x".repeat(33)] {
            assert!(Place::of(name).is_err(), "{name}");
        }
        assert_eq!(Place::of("my-net_2").unwrap().file("lock"), Path::new("/run/longhaul/twin/my-net_2/lock"));
    }
    #[test]
    fn changes_at_once_do_not_undo_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { name: "many".to_owned(), dir: dir.path().to_owned() };
        let change = |link: LinkIndex| {
            place.update_changes(|changes| {
                sleep(CHANGE_LOOK);
                changes.insert(link, Default::default());
                Ok(())
            })
        };
        std::thread::scope(|scope| {
            (0..8).map(|link| scope.spawn(move || change(link))).for_each(drop);
        });
        assert_eq!(place.changes().unwrap().into_keys().collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
        assert!(
            place
                .update_changes(|changes| {
                    changes.clear();
                    bail!("no")
                })
                .is_err()
        );
        assert_eq!(place.changes().unwrap().len(), 8, "what fails changes nothing");
    }
}
