//! Balanced factors: a number of processes as a product of dimensions that are as equal as possible (MPI 5.0, section
//! 8.5.2).
//!
//! Of all ways to write a number as a product of this many factors, the one with the least difference between the largest
//! and the smallest factor; of several such, the one with the smallest largest factor, then the smallest second, and so
//! on. A search over divisors, the largest factor first, that leaves a branch as soon as the difference cannot become
//! less than the best one so far.

/// Divisors that a search looks at, at most. It ends far earlier for all numbers to 10^5 in up to five dimensions;
/// beyond, the answer is the best so far.
const STEPS: u32 = 1 << 20;

/// `count` factors whose product is `number`, the largest first.
///
/// # Panics
/// If `number` is 0.
#[must_use]
pub fn balanced_factors(number: u32, count: usize) -> Vec<u32> {
    assert!(number > 0, "0 is no number of processes");
    let primes = primes(number);
    let Some(mut best) = greedy(&primes, count) else {
        return Vec::new();
    };
    // Of all products of factors f and f + 1 no two are the same number.
    if spread(&best) <= 1 {
        return best;
    }
    let mut search = Search {
        divisors: divisors(&primes),
        // One of the same spread as the first guess is preferred, if it is found.
        bound: spread(&best) + 1,
        best: &mut best,
        chosen: Vec::with_capacity(count),
        steps: STEPS,
    };
    search.descend(number, count, number);
    best
}

/// Largest less smallest factor.
fn spread(factors: &[u32]) -> u32 {
    match factors {
        [first, .., last] => first - last,
        _ => 0,
    }
}

/// A first guess: each prime factor, the largest first, onto the smallest product. `None` for no factors.
fn greedy(primes: &[u32], count: usize) -> Option<Vec<u32>> {
    let mut factors = vec![1; count];
    for prime in primes.iter().rev() {
        *factors.iter_mut().min()? *= prime;
    }
    factors.sort_unstable_by(|one, two| two.cmp(one));
    (count > 0).then_some(factors)
}

/// The prime factors of a number, the least first, each as often as it divides.
fn primes(mut number: u32) -> Vec<u32> {
    // At most 31: the last number of 32 bits is no power of 2.
    let mut all = Vec::with_capacity(31);
    let mut prime = 2;
    while u64::from(prime) * u64::from(prime) <= u64::from(number) {
        while number.is_multiple_of(prime) {
            all.push(prime);
            number /= prime;
        }
        prime += 1;
    }
    if number > 1 {
        all.push(number);
    }
    all
}

/// The divisors of a number with these prime factors, the least first.
fn divisors(primes: &[u32]) -> Vec<u32> {
    // As many as most numbers of processes have: a list that grows moves.
    let mut all = Vec::with_capacity(64);
    all.push(1);
    let mut last = (0, 1);
    for &prime in primes {
        // Of a prime that came before, only the divisors that it was multiplied onto last.
        let from = if prime == last.0 { last.1 } else { 0 };
        let before = all.len();
        last = (prime, before);
        for place in from..before {
            all.push(all[place] * prime);
        }
    }
    all.sort_unstable();
    all
}

/// The largest whole number whose power `exponent` is at most `number`.
fn root(number: u32, exponent: u32) -> u32 {
    let power = |base: u32| u64::from(base).checked_pow(exponent);
    let fits = |base: u32| power(base).is_some_and(|power| power <= u64::from(number));
    let mut root = match exponent {
        1 => return number,
        2 => return number.isqrt(),
        _ => f64::from(number).powf(1.0 / f64::from(exponent)) as u32,
    };
    while !fits(root) {
        root -= 1;
    }
    while fits(root + 1) {
        root += 1;
    }
    root
}

struct Search<'a> {
    divisors: Vec<u32>,
    best: &'a mut Vec<u32>,
    /// The spread of an answer must be less.
    bound: u32,
    chosen: Vec<u32>,
    steps: u32,
}

impl Search<'_> {
    /// Writes `rest` as a product of `places` factors of at most `limit`, the least first factor first.
    fn descend(&mut self, rest: u32, places: usize, limit: u32) {
        let first = self.chosen.first().copied();
        if places == 1 {
            if rest > limit || first.is_some_and(|first| first - rest >= self.bound) {
                return;
            }
            self.chosen.push(rest);
            self.bound = spread(&self.chosen);
            self.best.clone_from(&self.chosen);
            self.chosen.pop();
            return;
        }
        // The largest of the factors is at least their mean.
        let mean = root(rest, places as u32);
        let from = self.divisors.partition_point(|divisor| *divisor < mean);
        for place in from..self.divisors.len() {
            let factor = self.divisors[place];
            let largest = first.unwrap_or(factor);
            // The smallest is at most the mean of the others.
            let smallest = root(rest / factor, places as u32 - 1);
            if factor > limit || factor > rest || largest.saturating_sub(smallest) >= self.bound {
                return;
            }
            if self.steps == 0 {
                return;
            }
            self.steps -= 1;
            if rest.is_multiple_of(factor) {
                self.chosen.push(factor);
                self.descend(rest / factor, places - 1, factor);
                self.chosen.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least spread of all ways to write a number as a product.
    fn least(divisors: &[Vec<u32>], number: u32, places: usize, limit: u32, largest: u32) -> u32 {
        if places == 1 {
            return if number > limit {
                u32::MAX
            } else {
                largest.max(number) - number
            };
        }
        let factors = divisors[number as usize].iter().copied();
        factors
            .take_while(|factor| *factor <= limit)
            .map(|factor| {
                let largest = largest.max(factor);
                least(divisors, number / factor, places - 1, factor, largest)
            })
            .min()
            .unwrap_or(u32::MAX)
    }

    /// Every number to 10^5 in two to five dimensions, against all ways there are.
    #[test]
    fn no_other_factors_are_closer_to_each_other() {
        const END: u32 = if cfg!(miri) { 100 } else { 100_000 };
        let mut all: Vec<Vec<u32>> = vec![Vec::new(); END as usize + 1];
        for divisor in 1..=END {
            for multiple in (divisor..=END).step_by(divisor as usize) {
                all[multiple as usize].push(divisor);
            }
        }
        for number in 1..=END {
            assert_eq!(divisors(&primes(number)), all[number as usize]);
            for count in 2..=5 {
                let found = balanced_factors(number, count);
                assert_eq!(found.len(), count);
                assert_eq!(found.iter().product::<u32>(), number);
                assert!(found.is_sorted_by(|one, two| one >= two), "{found:?}");
                let least = least(&all, number, count, number, 0);
                assert_eq!(spread(&found), least, "{number} as {found:?}");
            }
        }
    }

    #[test]
    fn known_factors() {
        for (number, count, expected) in [
            (6, 2, vec![3, 2]),
            (7, 2, vec![7, 1]),
            (16, 2, vec![4, 4]),
            (24, 3, vec![4, 3, 2]),
            (1, 3, vec![1, 1, 1]),
            (12, 1, vec![12]),
            (12, 0, vec![]),
            (19008, 3, vec![33, 24, 24]),
            (i32::MAX as u32, 2, vec![i32::MAX as u32, 1]),
            (1 << 30, 5, vec![64; 5]),
            (1 << 30, 31, [vec![2; 30], vec![1]].concat()),
        ] {
            let found = balanced_factors(number, count);
            assert_eq!(found, expected, "{number} into {count}");
        }
    }

    /// Numbers with very many divisors, and more places than factors: the search ends.
    #[test]
    fn large_numbers_end_soon() {
        for number in [
            1_396_755_360,
            2_095_133_040,
            1 << 30,
            1_162_261_467,
            2_147_483_646,
        ] {
            for count in [2, 3, 4, 5, 6, 8, 12, 20, 32, 1000] {
                let found = balanced_factors(number, count);
                assert_eq!(found.iter().product::<u32>(), number);
                assert_eq!(found.len(), count);
            }
        }
    }
}
