//! How long light is under way.

use std::time::Duration;

/// Nanoseconds that light takes for a kilometre of fibre: the group index of standard single-mode fibre, 1.468 at
/// 1550 nm (Corning SMF-28, ITU-T G.652), over 299,792.458 km/s is 4.897 us.
pub const FIBRE_NS_PER_KM: f64 = 4_900.0;
/// Kilometres of a statute mile (exact, by the agreement of 1959).
pub const KM_PER_MILE: f64 = 1.609_344;
/// Mean radius of the Earth in km (IUGG).
const EARTH_RADIUS_KM: f64 = 6_371.008_8;

/// What light in fibre takes over `km`; `None` if it is no length or longer than years.
pub(super) fn delay(km: f64) -> Option<Duration> {
    let nanos = km * FIBRE_NS_PER_KM;
    (0.0..=1e17).contains(&nanos).then(|| Duration::from_nanos(nanos.round() as u64))
}

/// Kilometres along the surface between two places in degrees north and east (haversine).
#[must_use]
pub fn great_circle_km(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (lat_a, lat_b) = (a.0.to_radians(), b.0.to_radians());
    let half = |from: f64, to: f64| ((to - from) / 2.0).sin().powi(2);
    let chord = half(lat_a, lat_b) + lat_a.cos() * lat_b.cos() * half(a.1.to_radians(), b.1.to_radians());
    2.0 * EARTH_RADIUS_KM * chord.clamp(0.0, 1.0).sqrt().asin()
}

/// Kilometres of fibre between places that far apart by air: 1.5 times below 1000 km, 1500 km up to 1200 km, 1.25 times
/// above. This is how ITU-T G.826 reckons the length of a route that nobody measured.
#[must_use]
pub fn route_km(air_km: f64) -> f64 {
    if air_km < 1_000.0 { 1.5 * air_km } else { (1.25 * air_km).max(1_500.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_map() {
        let (chicago, geneva) = ((41.8781, -87.6298), (46.2044, 6.1432));
        let km = great_circle_km(chicago, geneva);
        assert!((7_048.0..7_049.0).contains(&km), "{km}");
        assert_eq!(great_circle_km(chicago, chicago), 0.0);
        let half_way_round = great_circle_km((0.0, 0.0), (0.0, 180.0));
        assert!((20_015.0..20_016.0).contains(&half_way_round), "{half_way_round}");
    }

    #[test]
    fn routes_are_longer_than_the_air() {
        let cases = [(0.0, 0.0), (100.0, 150.0), (999.0, 1498.5), (1000.0, 1500.0), (1200.0, 1500.0), (6000.0, 7500.0)];
        for (air, route) in cases {
            assert_eq!(route_km(air), route, "{air}");
        }
    }

    #[test]
    fn light_takes_its_time() {
        assert_eq!(delay(1_000.0), Some(Duration::from_micros(4_900)));
        assert_eq!(delay(-1.0), None);
        assert_eq!(delay(f64::NAN), None);
        assert_eq!(delay(f64::INFINITY), None);
    }
}
