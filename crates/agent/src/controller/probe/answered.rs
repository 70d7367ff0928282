//! What the kernel of this host must do for paths with marks.

use std::path::Path;

use units::Marks;

/// The kernel answers a connection with the code point that it began with (Linux 5.10; IPv6 as well).
const REFLECT_DSCP: &str = "net/ipv4/tcp_reflect_tos";
/// The same of flow labels, for sockets made after it was set: bit 0.
const REFLECT_LABEL: &str = "net/ipv6/flowlabel_reflect";

/// What this host's kernel must be told before it answers connections with these marks; `None` if it does. Without it the answers of a
/// session would take another path than its questions.
pub(super) fn is_not_answered(marks: Marks) -> Option<&'static str> {
    unanswered(Path::new("/proc/sys"), marks)
}

fn unanswered(settings: &Path, marks: Marks) -> Option<&'static str> {
    let is_on = |file: &str| {
        let value = std::fs::read_to_string(settings.join(file)).unwrap_or_default();
        value.trim().parse::<u32>().is_ok_and(|value| value & 1 == 1)
    };
    match marks {
        Marks { dscp: Some(_), .. } if !is_on(REFLECT_DSCP) => Some("sysctl -w net.ipv4.tcp_reflect_tos=1"),
        Marks { flow_label: Some(_), .. } if !is_on(REFLECT_LABEL) => {
            Some("sysctl -w net.ipv6.flowlabel_reflect=1, then start the agent again")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_answered_where_the_kernel_is_told_to() {
        let settings = tempfile::tempdir().expect("a directory");
        let (point, label) =
            (Marks { dscp: Some(18), flow_label: None }, Marks { dscp: None, flow_label: Some(0x12345) });
        let both = Marks { dscp: Some(18), flow_label: Some(1) };
        assert_eq!(unanswered(settings.path(), Marks::NONE), None);
        assert!(unanswered(settings.path(), point).is_some(), "an old kernel has no such file");
        for (file, value) in [(REFLECT_DSCP, "1\n"), (REFLECT_LABEL, "6\n")] {
            let file = settings.path().join(file);
            std::fs::create_dir_all(file.parent().expect("it has one")).expect("a directory");
            std::fs::write(file, value).expect("a file");
        }
        assert_eq!(unanswered(settings.path(), point), None);
        assert!(unanswered(settings.path(), label).is_some_and(|how| how.contains("flowlabel_reflect")));
        assert!(unanswered(settings.path(), both).is_some());
        std::fs::write(settings.path().join(REFLECT_LABEL), "3\n").expect("a file");
        assert_eq!(unanswered(settings.path(), both), None);
    }
}
