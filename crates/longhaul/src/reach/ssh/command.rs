//! The user's own ssh, as a command.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::action::SshEnd;

/// How long `ssh -G` may take; it connects to nobody.
const CONFIGURATION_TIME_MAX: Duration = Duration::from_secs(3);
/// Bytes that `ssh -G` may print.
const CONFIGURATION_BYTES_MAX: usize = 1 << 20;

/// A program and its first arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshCommand {
    pub(super) program: String,
    arguments: Vec<String>,
}

impl SshCommand {
    /// Splits at spaces; single and double quotes hold a word together, as in rsync's `-e`.
    ///
    /// # Errors
    /// When it is empty or a quote is left open.
    pub(crate) fn parse(text: &str) -> Result<SshCommand, &'static str> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in text.chars() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, c) if c.is_whitespace() => words.extend(word.take()),
                (_, c) => word.get_or_insert_default().push(c),
            }
        }
        if quote.is_some() {
            return Err("a quote is left open");
        }
        words.extend(word);
        let mut words = words.into_iter();
        let program = words.next().filter(|program| !program.is_empty()).ok_or("a command is missing")?;
        Ok(SshCommand { program, arguments: words.collect() })
    }

    /// Ready for what is to be run over it; it ends with its handle.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).kill_on_drop(true);
        command
    }
}

/// What the configuration of ssh calls the host; as written where ssh does not tell.
pub(super) async fn real_name(end: &SshEnd) -> String {
    let mut command = end.settings.command.command();
    command.arg("-G").arg(end.host.ssh_destination()).stdin(Stdio::null()).stderr(Stdio::null());
    let output = timeout(CONFIGURATION_TIME_MAX, command.output()).await;
    let told = output
        .ok()
        .and_then(Result::ok)
        .filter(|output| output.status.success() && output.stdout.len() <= CONFIGURATION_BYTES_MAX);
    let name = told.and_then(|output| host_name(&String::from_utf8_lossy(&output.stdout)));
    name.unwrap_or_else(|| end.host.host.clone())
}

fn host_name(configuration: &str) -> Option<String> {
    let mut lines = configuration.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == "hostname").map(|(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_into_words() {
        let cases: [(&str, &[&str]); 5] = [
            ("ssh", &["ssh"]),
            (" ssh  -p 22\t-i key ", &["ssh", "-p", "22", "-i", "key"]),
            ("ssh -o 'ProxyCommand=a b'", &["ssh", "-o", "ProxyCommand=a b"]),
            ("'/path with spaces/ssh' \"\"", &["/path with spaces/ssh", ""]),
            ("ssh a\"b'c\"d", &["ssh", "ab'cd"]),
        ];
        for (text, words) in cases {
            let command = SshCommand::parse(text).unwrap();
            let found: Vec<&str> =
                std::iter::once(&command.program).chain(&command.arguments).map(String::as_str).collect();
            assert_eq!(found, words, "{text}");
        }
        for bad in ["", "  ", "ssh 'x", "''"] {
            assert!(SshCommand::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_real_name_is_found() {
        assert_eq!(host_name("user me\nhostname dtn.example.org\nport 22\n").as_deref(), Some("dtn.example.org"));
        assert_eq!(host_name("user me\n"), None);
    }
}
