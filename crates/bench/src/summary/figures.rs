//! Figures in readable form: numbers with three digits, places of an axis with their unit.

/// A number with three significant digits, without an exponent.
pub fn figure(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    if value.fract() == 0.0 && value.abs() < 1e7 {
        return format!("{value}");
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
}

/// A place of the x axis with its noun; bytes in Ki and Mi where they are whole.
pub(super) fn place_name(x: f64, noun: &str) -> String {
    let powers = [(f64::from(1 << 20), "MiB"), (1024.0, "KiB")];
    match powers
        .iter()
        .find(|(size, _)| noun == "B" && x >= *size && x % size == 0.0)
    {
        Some((size, unit)) => format!("{} {unit}", x / size),
        None => format!("{} {noun}", figure(x)),
    }
}

/// Unit or noun of an x axis: the part in brackets, or the whole label. If every panel counts something else,
/// the panel's name is the noun.
pub(super) fn axis(label: &str) -> &str {
    if label == "how many" {
        return "";
    }
    label
        .split_once('[')
        .map_or(label, |(_, rest)| rest.trim_end_matches(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(place_name(262_144.0, "B"), "256 KiB");
        assert_eq!(place_name(1500.0, "B"), "1500 B");
        assert_eq!(place_name(17.0, "ranks"), "17 ranks");
        assert_eq!(figure(0.242_13), "0.242");
        assert_eq!(figure(12.345), "12.3");
        assert_eq!(figure(12_345.6), "12346");
        assert_eq!(figure(64.0), "64");
    }
}
