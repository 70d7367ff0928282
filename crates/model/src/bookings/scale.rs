//! The same list for the network at other rates.

use toml::{Table, Value};
use units::Rate;

use crate::network::Ratio;

/// The text of a list that can be read, with all rates times a ratio; a rate stays above nothing. Notes of people in it are lost.
///
/// # Errors
/// If it is no TOML.
pub fn scaled(text: &str, ratio: Ratio) -> Result<String, toml::de::Error> {
    let mut list: Table = text.parse()?;
    for table in list.iter_mut().filter_map(|(_, value)| value.as_array_mut()).flatten().filter_map(Value::as_table_mut)
    {
        for key in ["rate", "grain"] {
            let Some(Value::String(rate)) = table.get_mut(key) else { continue };
            let Ok(read) = rate.parse::<Rate>() else { continue };
            *rate = format!("{:#}", Rate::from_bps(ratio.of(read.bps()).max(1)));
        }
    }
    Ok(list.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bookings::Bookings;
    use crate::network::Network;

    #[test]
    fn all_rates_and_nothing_else_are_another() {
        let network = "name = \"n\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nname = \"ab\"\nends = [\"a\", \"b\"]\nrate = \"10 Gb/s\"\n";
        let network = Network::from_toml(network, "n.toml").expect("a network");
        let text = r#"
[[booking]]
name = "x"
class = "y"
links = ["ab"]
from = "b"
resources = ["port"]
rate = "4 Gb/s"
start = 2026-03-01T00:00:00Z
end = "2026-03-01T06:00:00Z"
[[booking]]
name = "all"
links = ["ab"]
start = "2026-03-01T00:00:00Z"
end = "2026-03-01T06:00:00Z"
[[grain]]
link = "ab"
rate = "50 b/s"
[[resource]]
name = "port"
node = "a"
way = "in"
rate = "9.99 Gb/s"
grain = "1 Gb/s"
"#;
        let read = |text: &str| Bookings::from_toml(text, "b.toml", &network).expect("bookings");
        let ratio = Ratio::new(1, 100).expect("a ratio");
        let (before, after) = (read(text), read(&scaled(text, ratio).expect("TOML")));
        assert_eq!(read(&scaled(text, Ratio::ONE).expect("TOML")), before);
        assert_eq!(after.bookings[0].rate, Some(Rate::mbps(40)));
        assert_eq!((after.resources[0].rate.bps(), after.resources[0].grain), (99_900_000, Rate::mbps(10)));
        assert!(after.grains.iter().all(|(_, grain)| grain.bps() == 1), "{:?}", after.grains);
        let rateless = |list: &Bookings| {
            let mut list = list.clone();
            list.bookings[0].rate = None;
            (list.bookings, list.resources[0].ways.clone())
        };
        assert_eq!(rateless(&before), rateless(&after));
    }
}
