//! Network namespaces with veth pairs between them, for a test. They go when it ends.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use driver::difference::Items;
use driver::{Done, DriverError, Found, Kernel, Linux, Wish};
use sys::netns::Namespace;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A namespace that goes with its test.
pub(crate) struct Space(pub(crate) Namespace);

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.delete();
    }
}

/// Namespaces, if this process may make some.
pub(crate) fn spaces<const N: usize>(topic: &str) -> Option<[Space; N]> {
    if sys::process::euid() != 0 {
        eprintln!("skipped: namespaces need root");
        return None;
    }
    let run = NEXT.fetch_add(1, Ordering::Relaxed);
    let spaces = std::array::from_fn(|n| {
        let name = format!("lh-drv-{topic}-{}-{run}-{n}", std::process::id());
        let space = Space(Namespace::create(&name).expect("root can make a namespace"));
        space.ip("link set dev lo up");
        space
    });
    Some(spaces)
}

impl Space {
    /// Runs `ip` in it.
    pub(crate) fn ip(&self, words: &str) -> String {
        self.run("ip", words)
    }

    /// Runs `tc` in it.
    pub(crate) fn tc(&self, words: &str) -> String {
        self.run("tc", words)
    }

    fn run(&self, program: &str, words: &str) -> String {
        let output = Command::new(program).args(["-n", self.0.name()]).args(words.split_whitespace()).output();
        let output = output.expect("iproute2 is there");
        assert!(output.status.success(), "{program} {words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it is text")
    }

    /// A veth pair to another, named `to` here and `back` there.
    pub(crate) fn veth(&self, to: &str, other: &Space, back: &str) {
        self.ip(&format!("link add dev {to} type veth peer name {back} netns {}", other.0.name()));
        self.ip(&format!("link set dev {to} up"));
        other.ip(&format!("link set dev {back} up"));
    }

    /// Does something with the kernel of it.
    pub(crate) fn kernel<T: Send + 'static>(&self, work: impl FnOnce(&mut Linux) -> T + Send + 'static) -> T {
        self.inside(|| Ok(work(&mut Linux::open()?)))
    }

    /// Does something in it.
    pub(crate) fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> io::Result<T> + Send + 'static) -> T {
        self.0.run(work).expect("the namespace is there")
    }

    pub(crate) fn apply(&self, wish: &Items) -> Result<Done, DriverError> {
        let wish = wish.clone();
        self.kernel(move |kernel| driver::apply(kernel, &wish))
    }

    pub(crate) fn found(&self) -> Found {
        self.kernel(|kernel| kernel.read().expect("it can be read"))
    }

    /// All that is there of traffic control and routing, ours or not.
    pub(crate) fn everything(&self) -> String {
        let mut text = self.tc("qdisc show") + &self.ip("-4 rule show") + &self.ip("-6 rule show");
        text += &self.ip("-4 route show table all");
        // What the kernel adds for its own addresses comes when it likes.
        let six = self.ip("-6 route show table all");
        text.extend(six.lines().filter(|line| !line.contains("kernel")).map(|line| format!("{line}\n")));
        for device in self.ip("-br link show").lines().filter_map(|line| line.split(['@', ' ']).next()) {
            text += &self.tc(&format!("class show dev {device}"));
            text += &self.tc(&format!("filter show dev {device}"));
        }
        text.lines().map(|line| without_numbers(line) + "\n").collect()
    }
}

/// A line without the numbers that the kernel gives to the tables of filters, and without counts of packets.
fn without_numbers(line: &str) -> String {
    let mut before = "";
    let words = line.split(' ').map(|word| {
        let shown = if ["fh", "ht", "direct_packets_stat"].contains(&before) { "N" } else { word };
        before = word;
        shown
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The items of a wish.
pub(crate) fn wish(text: &str) -> Items {
    let wish = Wish::parse(text, Path::new("driver.toml")).unwrap_or_else(|error| panic!("{error}"));
    wish.items().expect("all rates are given")
}
