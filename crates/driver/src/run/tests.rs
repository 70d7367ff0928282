use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::difference::carry_out;
use crate::found::Device;
use crate::item::{Item, Key};
use crate::wish::Wish;

/// Stands for a kernel: it does what is said, until it does not.
#[derive(Default)]
struct Paper {
    found: Found,
    /// Steps that it does before it refuses one.
    good: Option<usize>,
    /// It refuses all after that.
    stays_bad: bool,
    /// It takes every step, and has another thing then.
    forgets: Option<Key>,
}

impl Paper {
    fn with(devices: &[&str]) -> Paper {
        let devices = devices.iter().map(|name| ((*name).to_owned(), Device::default())).collect();
        Paper { found: Found { devices, ..Found::default() }, ..Paper::default() }
    }
}

fn refused() -> Refused {
    Refused { text: Some("no".to_owned()), source: io::Error::from_raw_os_error(22) }
}

impl Kernel for Paper {
    fn read(&mut self) -> Result<Found, Refused> {
        Ok(self.found.clone())
    }

    fn act(&mut self, step: &Step, _: &Found) -> Result<(), Refused> {
        match &mut self.good {
            Some(0) if self.stays_bad => return Err(refused()),
            Some(0) => {
                self.good = None;
                return Err(refused());
            }
            Some(left) => *left -= 1,
            None => {}
        }
        carry_out(step, &mut self.found.items).map_err(|_| refused())?;
        if let Some(key) = &self.forgets {
            self.found.items.remove(key);
        }
        Ok(())
    }
}

fn wish(text: &str) -> Items {
    Wish::parse(text, Path::new("driver.toml")).expect("it is right").items().expect("all rates are given")
}

const ONE: &str = r#"
    [[interface]]
    name = "eth1"
    rate = "10Gb/s"
    at_large = "2Gb/s"
    [[interface.class]]
    name = "longhaul"
    match = [{ dscp = "le" }, { to = "192.0.2.0/24" }]
    floor = "8Gb/s"
"#;

const OTHER: &str = r#"
    [[interface]]
    name = "eth1"
    rate = "10Gb/s"
    at_large = "5Gb/s"
    [[interface.class]]
    name = "longhaul"
    match = [{ dscp = "cs1" }]
    floor = "2Gb/s"
    ceiling = "5Gb/s"
    [[interface.class]]
    name = "bulk"
    match = [{ from = "2001:db8::/32" }]
    floor = "1Gb/s"
    [[route]]
    number = 7
    from = "2001:db8:1::1"
    via = "2001:db8:f::1"
    interface = "eth2"
"#;

#[test]
fn what_is_wished_comes_to_be_and_goes() {
    let mut kernel = Paper::with(&["eth1", "eth2"]);
    let one = wish(ONE);
    let planned = plan(&mut kernel, &one).expect("nothing is in the way");
    assert!(kernel.found.items.is_empty(), "a plan changes nothing");
    assert_eq!(apply(&mut kernel, &one).expect("it is done"), planned);
    assert_eq!(kernel.found.items, one);
    assert_eq!(apply(&mut kernel, &one).expect("it is done").steps, [], "a second time there is nothing to do");
    let other = wish(OTHER);
    let done = apply(&mut kernel, &other).expect("it is done");
    assert_eq!(kernel.found.items, other);
    assert!(done.steps.iter().all(|step| step.item().key() != Key::Root("eth1".to_owned())), "the root stays");
    let gone = without(&kernel.found, &["eth1".to_owned()]);
    apply(&mut kernel, &gone).expect("it is done");
    assert!(kernel.found.items.values().all(|item| item.shapes().is_none()) && kernel.found.items.len() == 2);
    let gone = without(&kernel.found, &[]);
    apply(&mut kernel, &gone).expect("it is done");
    assert!(kernel.found.items.is_empty());
}

#[test]
fn wherever_a_step_fails_all_is_as_it_was() {
    let (one, other) = (wish(ONE), wish(OTHER));
    let mut full = Paper::with(&["eth1", "eth2"]);
    apply(&mut full, &one).expect("it is done");
    let steps = plan(&mut full, &other).expect("nothing is in the way").steps.len();
    assert!(steps > 8, "{steps}");
    for good in 0..steps {
        let mut kernel = Paper { found: full.found.clone(), good: Some(good), ..Paper::default() };
        let error = apply(&mut kernel, &other).expect_err("a step fails");
        assert!(error.left_as_it_was(), "{error}");
        assert!(matches!(&error, DriverError::Step { back, .. } if back.count == good), "{error}");
        assert_eq!(kernel.found.items, one, "after {good} steps");
    }
    // Where nothing can be taken back either, it is said, and the next run makes it good.
    let mut kernel = Paper { found: full.found.clone(), good: Some(3), stays_bad: true, ..Paper::default() };
    let error = apply(&mut kernel, &other).expect_err("a step fails");
    assert!(!error.left_as_it_was() && error.to_string().contains("longhaul driver undo"), "{error}");
    kernel.good = None;
    apply(&mut kernel, &other).expect("it is done");
    assert_eq!(kernel.found.items, other);
}

#[test]
fn a_kernel_that_has_another_thing_is_found_out() {
    let key = Key::Class("eth1".to_owned(), 3);
    let mut kernel = Paper { forgets: Some(key), ..Paper::with(&["eth1"]) };
    let error = apply(&mut kernel, &wish(ONE)).expect_err("a class is missing");
    assert!(matches!(error, DriverError::Differs { .. }), "{error}");
}

#[test]
fn what_is_not_ours_is_in_the_way() {
    let mut kernel = Paper::with(&["eth2"]);
    let error = apply(&mut kernel, &wish(ONE)).expect_err("there is no eth1").to_string();
    assert_eq!(error, "there is no interface `eth1`: see `ip link`");

    let mut kernel = Paper::with(&["eth1", "eth2"]);
    kernel.found.device("eth1").foreign_root = Some("htb 1:".to_owned());
    let error = apply(&mut kernel, &wish(ONE)).expect_err("it is somebody's").to_string();
    assert!(error.contains("htb 1:") && error.contains("tc qdisc del dev eth1 root"), "{error}");

    let mut kernel = Paper::with(&["eth1", "eth2"]);
    apply(&mut kernel, &wish(ONE)).expect("it is done");
    kernel.found.foreign("eth1", "filter 7".to_owned());
    let before = kernel.found.items.clone();
    let error = apply(&mut kernel, &Items::new()).expect_err("a filter of others would go").to_string();
    assert!(error.contains("filter 7"), "{error}");
    assert_eq!(kernel.found.items, before);
    // What removes nothing does them no harm.
    apply(&mut kernel, &wish(ONE)).expect("it is done");
}

fn any_wish() -> impl Strategy<Value = Items> {
    let class = (prop::collection::vec(0_u8..4, 1..4), 1_u64..4);
    let interface = (prop::collection::vec(class, 1..4), 1_u64..4);
    let routes = prop::collection::btree_map(1_u32..6, 1_u8..4, 0..4);
    (prop::collection::btree_map(0_u8..3, interface, 0..3), routes).prop_map(|(interfaces, routes)| {
        let mut text = String::new();
        for (device, (classes, at_large)) in interfaces {
            text +=
                &format!("[[interface]]\nname = \"eth{device}\"\nrate = \"20Gb/s\"\nat_large = \"{at_large}Gb/s\"\n");
            for (index, (points, floor)) in classes.into_iter().enumerate() {
                let points: Vec<String> = points.into_iter().map(|point| format!("{{ dscp = \"{point}\" }}")).collect();
                let points = points.join(", ");
                text +=
                    &format!("[[interface.class]]\nname = \"c{index}\"\nmatch = [{points}]\nfloor = \"{floor}Gb/s\"\n");
            }
        }
        for (number, hop) in routes {
            text += &format!(
                "[[route]]\nnumber = {number}\nfrom = \"10.0.0.{hop}\"\nvia = \"10.1.0.{hop}\"\ninterface = \"eth0\"\n"
            );
        }
        wish(&text)
    })
}

proptest! {
    #[test]
    fn from_anything_to_anything_whenever_it_is_killed(
        from in any_wish(), to in any_wish(), killed in 0_usize..40, next in any_wish()
    ) {
        let mut kernel = Paper::with(&["eth0", "eth1", "eth2"]);
        kernel.found.items = from.clone();
        for step in steps(&from, &to).iter().take(killed) {
            kernel.act(step, &Found::default()).expect("each step can be done where those before were");
        }
        apply(&mut kernel, &next).expect("whatever was left, the next run makes it good");
        prop_assert_eq!(&kernel.found.items, &next);
    }

    #[test]
    fn every_step_has_an_opposite(from in any_wish(), to in any_wish()) {
        let mut on = from.clone();
        let all = steps(&from, &to);
        for step in &all {
            carry_out(step, &mut on).expect("it can be done");
        }
        prop_assert_eq!(&on, &to);
        for step in all.into_iter().rev() {
            carry_out(&step.inverse(), &mut on).expect("it can be taken back");
        }
        prop_assert_eq!(&on, &from);
    }

    #[test]
    fn nothing_is_made_before_what_it_needs(from in any_wish(), to in any_wish()) {
        let mut on = from.clone();
        for step in steps(&from, &to) {
            carry_out(&step, &mut on).expect("it can be done");
            for item in on.values() {
                let needs = match item {
                    Item::Class(of) => Some(Key::Root(of.device.clone())),
                    Item::Queue { device, minor, .. } => Some(Key::Class(device.clone(), *minor)),
                    Item::Filter(of) => Some(Key::Class(of.device.clone(), of.minor)),
                    _ => None,
                };
                prop_assert!(needs.is_none_or(|needs| on.contains_key(&needs)), "{} after {}", item, step);
            }
        }
    }
}
