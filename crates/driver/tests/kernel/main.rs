//! The driver and the kernel of this machine, in network namespaces: all of it needs root, and is skipped without.

mod floor;
mod rig;

use driver::difference::{Items, Step, steps};
use driver::{DriverError, Found, Kernel, Linux};
use rig::{Space, spaces, wish};
use sys::netlink::Refused;

const WISH: &str = r#"
    [[interface]]
    name = "east"
    rate = "400Gb/s"
    at_large = "99Gb/s"
    [[interface.class]]
    name = "longhaul"
    match = [{ dscp = "le" }, { from = "10.1.0.0/16", to = "10.2.0.0/17" }, { to = "2001:db8:7::/65", dscp = "cs1" }]
    floor = "300Gb/s"
    [[interface.class]]
    name = "odd"
    match = [{ from = "0.0.0.0/0", dscp = "63" }, { from = "::/0" }]
    floor = "64kb/s"
    ceiling = "12345678b/s"

    [[interface]]
    name = "west"
    rate = "100Mb/s"
    at_large = "20Mb/s"
    [[interface.class]]
    name = "longhaul"
    match = [{ dscp = "af11" }]
    floor = "80Mb/s"

    [[route]]
    number = 1
    from = "10.1.0.1"
    to = "10.9.0.0/16"
    via = "10.1.0.2"
    interface = "east"
    [[route]]
    number = 255
    from = "2001:db8:1::/64"
    dscp = "le"
    via = "2001:db8:1::2"
    interface = "east"
"#;

const LESS: &str = r#"
    [[interface]]
    name = "east"
    rate = "10Gb/s"
    at_large = "9Gb/s"
    [[interface.class]]
    name = "other"
    match = [{ from = "2001:db8::/32" }]
    floor = "1Gb/s"
    [[route]]
    number = 1
    from = "10.1.0.1"
    via = "10.1.0.3"
    interface = "east"
"#;

/// A router with two interfaces, and what is behind them.
fn router(topic: &str) -> Option<[Space; 2]> {
    let spaces = spaces::<2>(topic)?;
    let [router, other] = &spaces;
    for (device, number) in [("east", 1), ("west", 3)] {
        router.veth(device, other, device);
        router.ip(&format!("addr add 10.{number}.0.1/16 dev {device}"));
        router.ip(&format!("addr add 2001:db8:{number}::1/64 dev {device} nodad"));
    }
    Some(spaces)
}

#[test]
fn the_kernel_has_what_is_wished_and_then_what_it_had() {
    let Some([router, _other]) = router("life") else { return };
    let before = router.everything();
    for text in [WISH, LESS, WISH] {
        let wished = wish(text);
        let done = router.apply(&wished).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(!done.steps.is_empty());
        assert_eq!(router.found().items, wished);
        assert_eq!(router.apply(&wished).expect("it is there").steps, [], "a second time there is nothing to do");
    }
    router.apply(&Items::new()).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(router.everything(), before);
}

#[test]
fn a_route_by_code_point_is_one_or_is_refused() {
    let Some([router, _other]) = router("dscp") else { return };
    let before = router.everything();
    let text = "[[route]]\nnumber = 2\ndscp = \"cs1\"\nvia = \"10.1.0.2\"\ninterface = \"east\"\n";
    match router.apply(&wish(text)) {
        Ok(_) => {
            let way = |tos: &str| router.ip(&format!("route get 10.77.0.1 tos {tos}"));
            assert!(way("0x20").contains("via 10.1.0.2"), "{}", way("0x20"));
            router.apply(&Items::new()).unwrap_or_else(|error| panic!("{error:?}"));
        }
        // Before Linux 6.13 IPv4 has no such rules: one without the code point would catch all traffic.
        Err(error) => assert!(matches!(error, DriverError::Differs { .. }) && error.left_as_it_was(), "{error:?}"),
    }
    assert_eq!(router.everything(), before);
}

#[test]
fn a_route_by_flow_label_is_one_or_is_refused() {
    let Some([router, _other]) = router("label") else { return };
    let before = router.everything();
    let route = "via = \"2001:db8:1::2\"\ninterface = \"east\"\n";
    let text =
        format!("[[route]]\nnumber = 2\nfrom = \"2001:db8:3::7\"\ndscp = \"af21\"\nflow_label = 0x12345\n{route}");
    match router.apply(&wish(&text)) {
        Ok(_) => {
            // `ip` cannot ask with a label everywhere: that packets go by it is seen on a twin (`loop/paths.rs`).
            assert_eq!(router.found().items, wish(&text));
            router.apply(&Items::new()).unwrap_or_else(|error| panic!("{error:?}"));
        }
        // Before Linux 6.14 there are no such rules: one without the label would catch all traffic.
        Err(error) => assert!(matches!(error, DriverError::Differs { .. }) && error.left_as_it_was(), "{error:?}"),
    }
    assert_eq!(router.everything(), before);
}

#[test]
fn what_others_made_stays() {
    let Some([router, _other]) = router("foreign") else { return };
    // Another table, the same table by another protocol, a rule at a priority of ours by another protocol, a root elsewhere.
    router.ip("route add 10.20.0.0/16 via 10.1.0.2 table 99 proto 241");
    router.ip("route add 10.21.0.0/16 via 10.1.0.2 table 24101 proto static");
    router.ip("rule add from 10.5.0.0/16 table 99 priority 24101 protocol static");
    router.ip("rule add from 10.6.0.0/16 table 99 priority 77 protocol 241");
    router.tc("qdisc add dev west root handle 1: tbf rate 50mbit burst 64kb latency 50ms");
    let before = router.everything();

    let refused = router.apply(&wish(WISH)).expect_err("west is somebody's");
    assert!(refused.to_string().contains("`west` has a qdisc that is not ours (tbf 1:)"), "{refused}");
    assert_eq!(router.everything(), before, "nothing was begun");

    let less = wish(LESS);
    router.apply(&less).unwrap_or_else(|error| panic!("{error:?}"));
    router.tc("filter add dev east parent 4c48: protocol ip prio 7 u32 match ip src 10.7.0.0/16 flowid 4c48:2");
    router.tc("class add dev east parent 4c48:1 classid 4c48:77 htb rate 1mbit");
    let with_theirs = router.everything();
    router.apply(&less).expect("they are in nobody's way");
    let refused = router.apply(&Items::new()).expect_err("theirs would go with ours").to_string();
    assert!(refused.contains("class 4c48:77") && refused.contains("filter 7"), "{refused}");
    assert_eq!(router.everything(), with_theirs, "nothing was begun");

    router.tc("filter del dev east parent 4c48: prio 7");
    router.tc("class del dev east classid 4c48:77");
    router.apply(&Items::new()).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(router.everything(), before);
}

#[test]
fn what_others_changed_of_ours_is_made_good() {
    let Some([router, _other]) = router("changed") else { return };
    let wished = wish(WISH);
    router.apply(&wished).unwrap_or_else(|error| panic!("{error:?}"));
    router.tc("class change dev west parent 4c48:1 classid 4c48:3 htb rate 1mbit ceil 2mbit");
    router.tc("filter del dev east parent 4c48: prio 19529");
    router.ip("rule del priority 24101");
    router.ip("route replace default via 10.1.0.9 table 24101 proto 241 metric 1024");
    let done = router.apply(&wished).unwrap_or_else(|error| panic!("{error:?}"));
    let words: Vec<&str> = done.steps.iter().map(Step::word).collect();
    assert_eq!(words, ["change", "add", "change", "add"], "{:#?}", done.steps);
    assert_eq!(router.found().items, wished);
}

/// The kernel, until something happens before a step.
struct Until<F> {
    kernel: Linux,
    left: usize,
    then: F,
}

impl<F: FnMut() -> Result<(), Refused>> Kernel for Until<F> {
    fn read(&mut self) -> Result<Found, Refused> {
        self.kernel.read()
    }

    fn act(&mut self, step: &Step, found: &Found) -> Result<(), Refused> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => {
                self.left = usize::MAX;
                (self.then)()?;
            }
        }
        self.kernel.act(step, found)
    }
}

fn refused() -> Refused {
    Refused { text: Some("not this one".to_owned()), source: std::io::Error::from_raw_os_error(22) }
}

#[test]
fn wherever_it_fails_all_is_taken_back_and_wherever_it_dies_the_next_run_mends_it() {
    let Some([router, _other]) = router("fails") else { return };
    let (less, wished) = (wish(LESS), wish(WISH));
    router.apply(&less).unwrap_or_else(|error| panic!("{error:?}"));
    let before = router.everything();
    let all = steps(&less, &wished);
    assert!(all.len() > 15, "{all:#?}");
    fails_at_each_step(&router, all.len(), &wished);
    assert_eq!(router.everything(), before);
    for killed in 0..=all.len() {
        let some = all[..killed].to_vec();
        router.kernel(move |kernel| {
            let found = kernel.read().expect("it can be read");
            some.iter().for_each(|step| kernel.act(step, &found).expect("it can be done"));
        });
        // Forwards, or back: both from where it died.
        let next = if killed % 2 == 0 { &wished } else { &less };
        router.apply(next).unwrap_or_else(|error| panic!("after {killed} steps: {error:?}"));
        assert_eq!(&router.found().items, next);
        router.apply(&less).unwrap_or_else(|error| panic!("{error:?}"));
    }
    assert_eq!(router.everything(), before);
    router.apply(&wished).unwrap_or_else(|error| panic!("{error:?}"));
    fails_at_each_step(&router, steps(&wished, &less).len(), &less);
}

fn fails_at_each_step(router: &Space, steps: usize, wished: &Items) {
    let before = router.everything();
    for left in 0..steps {
        let to = wished.clone();
        let error = router.inside(move || {
            let mut kernel = Until { kernel: Linux::open()?, left, then: || Err(refused()) };
            Ok(driver::apply(&mut kernel, &to).expect_err("a step is refused"))
        });
        assert!(error.left_as_it_was(), "{error:?}");
        assert!(matches!(&error, DriverError::Step { back, .. } if back.count == left), "{error:?}");
        assert_eq!(router.everything(), before, "after {left} steps");
    }
}

#[test]
fn an_interface_that_vanishes_under_it_is_an_error_and_the_others_are_as_before() {
    let Some([router, _other]) = router("vanish") else { return };
    let wished = wish(WISH);
    let all = steps(&Items::new(), &wished);
    let at = all.iter().position(|step| step.to_string().contains("west: class")).expect("west has classes");
    router.ip("route show");
    let name = router.0.name().to_owned();
    let before = router.tc("qdisc show dev east") + &router.ip("rule show") + &router.ip("-6 rule show");
    let error = router.inside(move || {
        let then = move || {
            let gone = std::process::Command::new("ip").args(["-n", &name, "link", "del", "dev", "west"]).status();
            assert!(gone.is_ok_and(|status| status.success()));
            Ok(())
        };
        let mut kernel = Until { kernel: Linux::open()?, left: at, then };
        Ok(driver::apply(&mut kernel, &wished).expect_err("west is gone"))
    });
    assert!(matches!(&error, DriverError::Step { step, .. } if step.to_string().contains("west: class")), "{error:?}");
    assert!(error.left_as_it_was(), "{error:?}");
    assert_eq!(router.tc("qdisc show dev east") + &router.ip("rule show") + &router.ip("-6 rule show"), before);
    assert!(router.found().items.is_empty());
}
