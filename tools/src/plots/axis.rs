//! Axes: the range that holds all values, and the places that have a name.

/// How values lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from 0 on.
    Linear,
    /// By their logarithm; there is no 0.
    Log,
}

/// An axis with its label, which names the unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Label.
    pub label: String,
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
    is_named: bool,
}

/// Most ticks of an axis whose values are not listed.
const TICKS_MOST: usize = 8;
/// Room at both ends of an axis of listed values, as a part of it.
const ROOM: f64 = 0.04;

impl Axis {
    /// An axis that holds all `values`, and ends at round ones. Values that the scale does not have
    /// do not count.
    pub fn over(label: &str, scale: Scale, values: impl IntoIterator<Item = f64>) -> Self {
        let counts = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let values = values.into_iter().filter(counts);
        let extremes = values.fold(None, |found: Option<(f64, f64)>, value| {
            Some(found.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
        });
        let ticks = match (scale, extremes) {
            (_, None) => vec![1.0, 10.0],
            (Scale::Linear, Some((_, most))) => linear_ticks(most),
            (Scale::Log, Some((least, most))) => log_ticks(least, most),
        };
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        let mut axis = Self::new(label, scale, &ticks, false);
        (axis.low, axis.high) = (axis.place(low), axis.place(high));
        axis
    }

    /// An axis with ticks at these values, ascending, from the first to the last.
    pub fn at(label: &str, scale: Scale, values: &[f64]) -> Self {
        Self::new(label, scale, values, false)
    }

    /// An axis of names: number `n` lies at `n + 0.5`, and takes one.
    pub fn named(label: &str, names: &[&str]) -> Self {
        let places: Vec<f64> = (0..names.len()).map(|number| number as f64 + 0.5).collect();
        let mut axis = Self::new(label, Scale::Linear, &places, true);
        (axis.low, axis.high) = (0.0, names.len() as f64);
        axis.ticks.iter_mut().zip(names).for_each(|((_, name), given)| (*given).clone_into(name));
        axis
    }

    fn new(label: &str, scale: Scale, values: &[f64], is_named: bool) -> Self {
        let mut axis = Self { label: label.to_owned(), scale, low: 0.0, high: 1.0, ticks: Vec::new(), is_named };
        axis.ticks = values.iter().map(|&value| (axis.place(value), number(value))).collect();
        if let (Some((first, _)), Some((last, _))) = (axis.ticks.first(), axis.ticks.last()) {
            let room = (last - first) * ROOM;
            (axis.low, axis.high) = (first - room, last + room);
        }
        axis
    }

    /// Where a value lies, in the axis's own coordinate.
    pub fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        }
    }

    /// Where a bar or a whisker that goes down to 0 begins.
    pub fn floor(&self) -> f64 {
        self.low
    }

    /// The end of the axis, in its own coordinate.
    pub fn ceiling(&self) -> f64 {
        self.high
    }

    /// Whether a value lies on the axis.
    pub fn holds(&self, value: f64) -> bool {
        let place = self.place(value);
        self.low <= place && place <= self.high
    }

    /// Places of the ticks.
    pub fn places(&self) -> Vec<f64> {
        self.ticks.iter().map(|(place, _)| *place).collect()
    }

    /// Name of the tick at a place.
    pub fn name(&self, place: f64) -> String {
        let named = self.ticks.iter().find(|(other, _)| (other - place).abs() < 1e-9);
        named.map_or_else(String::new, |(_, name)| name.clone())
    }

    /// Whether the ticks are names, between which no line tells anything.
    pub fn is_named(&self) -> bool {
        self.is_named
    }
}

/// A value without needless digits.
pub fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Round values from 0 to the first one that is not below `most`.
fn linear_ticks(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let rough = most / (TICKS_MOST - 2) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= rough * 0.999_999);
    let step = step.unwrap_or(10.0 * power);
    let count = (most / step * 0.999_999).ceil() as usize;
    (0..=count.max(1)).map(|number| number as f64 * step).collect()
}

/// Values of 1, 2 or 5 times powers of ten, or those powers alone, from the last one that is not
/// above `least` to the first one that is not below `most`.
fn log_ticks(least: f64, most: f64) -> Vec<f64> {
    for digits in [[1.0, 2.0, 5.0].as_slice(), &[1.0, 3.0], &[1.0]] {
        let decades = (least.log10().floor() as i32 - 1)..=(most.log10().ceil() as i32);
        let all: Vec<f64> =
            decades.flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade))).collect();
        let first = all.iter().rposition(|tick| *tick <= least * 1.000_001).unwrap_or(0);
        let last = all.iter().position(|tick| *tick >= most * 0.999_999).unwrap_or(all.len() - 1);
        let last = last.max(first + 1).min(all.len() - 1);
        if last - first < TICKS_MOST || digits.len() == 1 {
            return all[first..=last].to_vec();
        }
    }
    unreachable!("the last list is taken however long it is")
}

#[cfg(test)]
mod tests {
    use super::{Axis, Scale, TICKS_MOST, number};

    fn values() -> Vec<Vec<f64>> {
        vec![
            vec![0.78, 3.83, 0.59],
            vec![1.0],
            vec![58.29, 1.0, 4.4],
            vec![0.01, 10.5, 13.9],
            vec![1e-9, 1e9],
            vec![99.9, 100.1],
            vec![1.31, 1.0, 1.74],
            vec![22_494.0, 229.0],
        ]
    }

    #[test]
    fn all_values_lie_on_the_axis() {
        for values in values() {
            for scale in [Scale::Linear, Scale::Log] {
                let axis = Axis::over("s", scale, values.iter().copied());
                assert!(values.iter().all(|value| axis.holds(*value)), "{scale:?} {values:?}: {axis:?}");
                let places = axis.places();
                assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{axis:?}");
                assert!(places.len() >= 2 && places.iter().all(|place| !axis.name(*place).is_empty()), "{axis:?}");
                let decades = (values.iter().copied().fold(0.0, f64::max) / values[0]).abs().log10();
                assert!(places.len() <= TICKS_MOST + 1 || decades > 7.0, "{axis:?}");
            }
        }
    }

    /// A time on a linear axis that does not begin at 0 would look like a difference in kind.
    #[test]
    fn a_linear_axis_begins_at_zero_and_wastes_little() {
        for values in values() {
            let axis = Axis::over("s", Scale::Linear, values.iter().copied());
            let most = values.iter().copied().fold(0.0, f64::max);
            assert!(axis.floor() == 0.0 && axis.ceiling() <= 2.0 * most, "{values:?}: {axis:?}");
        }
    }

    #[test]
    fn what_a_scale_does_not_have_does_not_count() {
        let axis = Axis::over("s", Scale::Log, [0.0, -1.0, f64::NAN, 2.0, 5.0]);
        assert!(axis.holds(2.0) && axis.holds(5.0) && axis.places().len() == 2, "{axis:?}");
        let axis = Axis::over("s", Scale::Linear, []);
        assert!(axis.floor() < axis.ceiling());
        let axis = Axis::over("s", Scale::Linear, [0.0]);
        assert!(axis.holds(0.0) && axis.ceiling() > 0.0);
    }

    #[test]
    fn listed_values_and_names_are_the_ticks() {
        let axis = Axis::at("threads", Scale::Log, &[1.0, 2.0, 32.0]);
        assert_eq!(axis.places().iter().map(|place| axis.name(*place)).collect::<Vec<_>>(), ["1", "2", "32"]);
        assert!(axis.holds(1.0) && axis.holds(32.0) && !axis.holds(64.0));
        let axis = Axis::named("", &["one", "two"]);
        assert_eq!((axis.name(0.5), axis.name(1.5), axis.name(1.0)), ("one".into(), "two".into(), String::new()));
        assert_eq!((axis.floor(), axis.ceiling()), (0.0, 2.0));
    }

    #[test]
    fn numbers_have_no_needless_digits() {
        let found = [0.05, 0.5, 1.0, 2.25, 10.0, 58.29, 1000.0, 0.0].map(number);
        assert_eq!(found, ["0.05", "0.5", "1", "2.25", "10", "58.3", "1000", "0"]);
    }
}
