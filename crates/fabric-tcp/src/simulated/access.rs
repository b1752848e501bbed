//! Access: what a transfer asks for, by which grant; mostly what the grant permits.

use rand::Rng;
use rand::rngs::StdRng;
use weft_fabric::Token;

use super::model::{Grant, LONGEST};

/// A token of no grant.
const BOGUS: Token = Token(1 << 63 | 77 << 32 | 5);

/// The request of a transfer.
pub struct Access {
    pub asker: usize,
    pub owner: usize,
    /// None: the token is of no grant.
    pub grant: Option<usize>,
    pub token: Token,
    pub put: bool,
    pub offset: usize,
    pub length: usize,
    /// Whether the grant permits it, as long as it lives.
    pub permitted: bool,
}

impl Access {
    /// An access by the grant that was announced to the asker, by one of all grants, mostly a late one, or by none;
    /// not by an offered grant that nobody knows, since it was not announced yet.
    pub fn draw(
        random: &mut StdRng,
        (asker, ranks): (usize, usize),
        grants: &[Grant],
        announced: Option<usize>,
    ) -> Option<Self> {
        let count = grants.len();
        let late = (count > 0 && random.random_range(0..12) > 0).then(|| {
            let back = random
                .random_range(0..count)
                .min(random.random_range(0..count));
            count - 1 - back
        });
        let known = match announced {
            Some(number) => Some(number),
            None if late.is_some_and(|number| grants[number].offered) => return None,
            None => late,
        };
        let bogus = Self::draw_bogus(random, (asker, ranks));
        let Some(number) = known else {
            return Some(bogus);
        };
        Some(bogus.turned_to(random, (number, &grants[number]), announced.is_some()))
    }

    /// An access by no grant.
    pub fn draw_bogus(random: &mut StdRng, (asker, ranks): (usize, usize)) -> Self {
        Self {
            asker,
            owner: random.random_range(0..ranks),
            grant: None,
            token: BOGUS,
            put: random.random(),
            offset: 0,
            length: random.random_range(0..100),
            permitted: false,
        }
    }

    /// The same access by this grant: a part of its memory, now and then what it does not permit. Of an
    /// announced grant mostly all.
    fn turned_to(
        self,
        random: &mut StdRng,
        (number, grant): (usize, &Grant),
        announced: bool,
    ) -> Self {
        let put = grant.rights.writes() != (random.random_range(0..20) == 0);
        let size = grant.memory.region().len();
        // Puts do not overlap: each byte shows its writer.
        let next = grant.next.min(size);
        let left = if put { size - next } else { size };
        let mut length = match random.random_range(0..if announced { 6 } else { 3 }) {
            0 | 3.. => left,
            _ => random.random_range(0..=left),
        };
        let offset = match put {
            true => next,
            false => random.random_range(0..=size - length),
        };
        if random.random_range(0..20) == 0 {
            length = (length + size + 1 - offset).min(LONGEST);
        }
        let named = grant.to.is_none_or(|to| to.index() == self.asker);
        let fits = offset + length <= size;
        Self {
            owner: grant.owner,
            grant: Some(number),
            token: grant.token,
            put,
            offset,
            length,
            permitted: named && fits && put == grant.rights.writes(),
            ..self
        }
    }
}
