//! Lists of nodes and numbers in the short forms of schedulers: `n[01-03,7],login1`, `2(x3),1`, `0-3,5`.

use super::{MOST_HOSTS, Reason};

/// Most digits of a number, zeros in front counted.
const LONGEST_NUMBER: usize = 10;

/// The names of a list with brackets: `a[1-2]b[3,4]` for four of them. Leading zeros are kept.
pub fn names(list: &str) -> Result<Vec<String>, Reason> {
    let mut found = Vec::new();
    for part in outside_brackets(list)? {
        expand(part, &mut found)?;
    }
    Ok(found)
}

/// The parts between the commas that stand outside of brackets.
fn outside_brackets(list: &str) -> Result<Vec<&str>, Reason> {
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, byte) in list.bytes().enumerate() {
        match (byte, inside) {
            (b'[', false) => inside = true,
            (b']', true) => inside = false,
            (b'[', true) | (b']', false) => return Err(wrong(list)),
            (b',', false) => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(wrong(list));
    }
    parts.push(&list[start..]);
    Ok(parts)
}

/// Appends what one part stands for.
fn expand(part: &str, found: &mut Vec<String>) -> Result<(), Reason> {
    let mut all = vec![String::new()];
    let mut rest = part;
    while let Some((before, more)) = rest.split_once('[') {
        let (inside, after) = more.split_once(']').ok_or_else(|| wrong(part))?;
        let mut next = Vec::new();
        for name in &all {
            for range in inside.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let (low, high) = (number(first)?, number(last)?);
                if low > high {
                    return Err(wrong(part));
                }
                // The first says how wide all of them are.
                let width = first.len();
                for number in low..=high {
                    if found.len() + next.len() >= MOST_HOSTS || width > LONGEST_NUMBER {
                        return Err(format!("'{}' is too long a list", shown(part)));
                    }
                    next.push(format!("{name}{before}{number:0width$}"));
                }
            }
        }
        (all, rest) = (next, after);
    }
    for name in all {
        let name = name + rest;
        if name.is_empty() {
            return Err(wrong(part));
        }
        if found.len() >= MOST_HOSTS {
            return Err(format!("'{}' is too long a list", shown(part)));
        }
        found.push(name);
    }
    Ok(())
}

/// The numbers of `2(x3),1`: 2, 2, 2, 1.
pub fn counts(list: &str) -> Result<Vec<u32>, Reason> {
    let mut found = Vec::new();
    for part in list.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')').ok_or_else(|| wrong(list))?),
            None => (part, "1"),
        };
        let (count, times) = (number(count)?, number(times)? as usize);
        if found.len() + times > MOST_HOSTS {
            return Err(format!("'{}' is too long a list", shown(list)));
        }
        found.extend(std::iter::repeat_n(count, times));
    }
    Ok(found)
}

/// The numbers of `0-2,5`: 0, 1, 2, 5.
pub fn numbers(list: &str) -> Result<Vec<u32>, Reason> {
    let mut found = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong(list));
        }
        if found.len() as u64 + u64::from(last.saturating_sub(first)) >= MOST_HOSTS as u64 {
            return Err(format!("'{}' is too long a list", shown(list)));
        }
        found.extend(first..=last);
    }
    Ok(found)
}

fn number(text: &str) -> Result<u32, Reason> {
    // A sign would be taken, too.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| format!("'{}' is no number", shown(text)))
}

fn wrong(list: &str) -> Reason {
    format!("'{}' is no list of hosts or numbers", shown(list))
}

/// Enough of a text to recognise it.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(60).collect();
    start.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_expanded_in_order() {
        for (list, expected) in [
            ("n1", "n1"),
            ("n[1-3]", "n1 n2 n3"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[1,3-4],m7", "n1 n3 n4 m7"),
            ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
            ("r[1,11]n[1-2]x", "r1n1x r1n2x r11n1x r11n2x"),
            ("a-b[7].c,d", "a-b7.c d"),
        ] {
            assert_eq!(names(list).expect(list).join(" "), expected, "{list}");
        }
        for list in [
            "", "n[1", "n]1", "n[[1]]", "n[a]", "n[]", "a,,b", "n[+1]", "n[1-2-3]", "n[2-1],m",
        ] {
            let error = names(list).expect_err(list);
            assert!(error.contains('\''), "{list}: {error}");
        }
        for long in ["n[0-4000000000]", "n[0-999]x[0-999]"] {
            assert!(names(long).expect_err(long).contains("too long"), "{long}");
        }
    }

    #[test]
    fn counts_are_repeated() {
        assert_eq!(counts("2(x3),1").expect("counts"), [2, 2, 2, 1]);
        assert_eq!(counts("4").expect("counts"), [4]);
        for list in ["", "2(x", "2(x)", "(x3)", "2(x3", "-1", "2(x4000000000)"] {
            counts(list).expect_err(list);
        }
        assert_eq!(numbers("0-2,5").expect("numbers"), [0, 1, 2, 5]);
        for list in ["", "0-", "0-4000000000", "x"] {
            numbers(list).expect_err(list);
        }
    }
}
