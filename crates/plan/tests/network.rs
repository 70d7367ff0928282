//! Networks and bookings from files, as calendars.

use model::bookings::Bookings;
use model::network::Network;
use plan::book::{AT_LARGE_CLASS, Book};
use units::{Utc, Window};

const NETWORK: &str = r#"
name = "pair"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
name = "marked"
ends = ["a", "b"]
rate = "10 Gb/s"
high_water = "80 %"
[[link]]
name = "open"
ends = ["a", "b"]
rate = "10 Gb/s"
[[link]]
name = "endless"
ends = ["b", "a"]
high_water = "50 %"
"#;

const BOOKINGS: &str = r#"
[[booking]]
name = "over"
links = ["open"]
rate = "9 Gb/s"
start = 2026-02-01T00:00:00Z
end = 2026-03-01T00:00:00Z

[[booking]]
name = "splice"
class = "maintenance"
links = ["marked"]
start = 2026-03-02T00:00:00Z
end = 2026-03-03T00:00:00Z

[[booking]]
name = "production"
links = ["open"]
from = "a"
rate = "100 Mb/s"
start = 2026-03-02T00:00:00Z
end = 2026-03-03T00:00:00Z

[[grain]]
link = "open"
rate = "150 Mb/s"
"#;

fn moment(text: &str) -> i64 {
    text.parse::<Utc>().unwrap().0
}

#[test]
fn marks_maintenance_and_grains_count() {
    let network = Network::from_toml(NETWORK, "pair.toml").unwrap();
    let bookings = Bookings::from_toml(BOOKINGS, "bookings.toml", &network).unwrap();
    let book = Book::of(&network, &bookings, moment("2026-03-01T00:00:00Z")).unwrap();
    let free = |edge: usize, hour: &str| {
        let calendar = book.view().resources()[edge].calendar();
        calendar.free_at(moment(&format!("2026-03-{hour}:00:00Z")))
    };
    // Edges 2 n and 2 n + 1 are the ways of link n.
    assert_eq!([free(0, "01T12"), free(0, "02T12"), free(1, "02T12")], [8_000_000_000, 0, 0]);
    assert_eq!(free(2, "01T12"), 9_900_000_000, "66 times 150 Mb/s; what is over is not booked");
    assert_eq!([free(2, "02T12"), free(3, "02T12")], [9_750_000_000, 9_900_000_000], "one way, one grain");
    assert_eq!(free(4, "02T12"), plan::calendar::CAPACITY_MAX, "a share of no limit is no limit");
    let mut classes: Vec<&str> =
        book.view().bookings().iter().map(|(_, booking)| booking.holder.class.as_str()).collect();
    classes.sort_unstable();
    assert_eq!(classes, [AT_LARGE_CLASS, AT_LARGE_CLASS, "maintenance", "reservation"]);
    assert_eq!(book.view().resources()[0].calendar().left(Window::ALWAYS), -2_000_000_000, "it is down all the same");
}

#[test]
fn resources_beside_links_count() {
    let bookings = "[[resource]]\nname = \"read\"\nnode = \"a\"\nway = \"out\"\nrate = \"7 Gb/s\"\n\
        [[booking]]\nname = \"backup\"\nresources = [\"read\"]\nrate = \"3 Gb/s\"\n\
        start = 2026-03-02T00:00:00Z\nend = 2026-03-03T00:00:00Z\n";
    let network = Network::from_toml(NETWORK, "pair.toml").unwrap();
    let bookings = Bookings::from_toml(bookings, "bookings.toml", &network).unwrap();
    let book = Book::of(&network, &bookings, moment("2026-03-01T00:00:00Z")).unwrap();
    let day = |day: &str| Window::lasting(moment(&format!("2026-03-{day}T00:00:00Z")), 1).unwrap();
    // `open` has 10 Gb/s, the storage before it less.
    assert_eq!([book.view().free(2, day("01")), book.view().free(2, day("02"))], [7_000_000_000, 4_000_000_000]);
    assert_eq!(book.view().free(3, day("02")), 10_000_000_000, "the other way nothing is read");
}
