//! Those who wait while another drives progress: in order, taken out anywhere, a million of them.

use weft_fiber::Waiter;

/// No place.
const NONE: u32 = u32::MAX;

/// A list in a table: each place knows its neighbours.
#[derive(Debug)]
pub(crate) struct Parked {
    places: Vec<Place>,
    first: u32,
    last: u32,
    free: u32,
    count: usize,
}

#[derive(Debug)]
struct Place {
    waiter: Option<Waiter>,
    before: u32,
    /// The next in the list; of a free place, the next free one.
    after: u32,
}

impl Default for Parked {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            first: NONE,
            last: NONE,
            free: NONE,
            count: 0,
        }
    }
}

impl Parked {
    /// Puts one at the end; the answer is for [`remove`](Self::remove).
    pub(crate) fn push(&mut self, waiter: Waiter) -> u32 {
        let new = Place {
            waiter: Some(waiter),
            before: self.last,
            after: NONE,
        };
        let place = self.free;
        let place = if place == NONE {
            self.places.push(new);
            u32::try_from(self.places.len() - 1).expect("fewer waiters than numbers")
        } else {
            self.free = self.places[place as usize].after;
            self.places[place as usize] = new;
            place
        };
        match self.last {
            NONE => self.first = place,
            last => self.places[last as usize].after = place,
        }
        self.last = place;
        self.count += 1;
        place
    }

    /// Takes one out, by the answer of [`push`](Self::push).
    pub(crate) fn remove(&mut self, place: u32) {
        let Place { before, after, .. } = self.places[place as usize];
        match before {
            NONE => self.first = after,
            before => self.places[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.places[after as usize].before = before,
        }
        self.places[place as usize] = Place {
            waiter: None,
            before: NONE,
            after: self.free,
        };
        self.free = place;
        self.count -= 1;
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Who has waited longest.
    pub(crate) fn first(&self) -> Option<&Waiter> {
        self.places.get(self.first as usize)?.waiter.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_the_order_stays() {
        let mut parked = Parked::default();
        assert!(parked.first().is_none());
        let me = Waiter::current();
        let [one, two, three] = [0; 3].map(|_| parked.push(me.clone()));
        assert_eq!((parked.first, parked.last), (one, three));
        assert_eq!(parked.len(), 3);
        parked.remove(two);
        parked.remove(one);
        assert_eq!((parked.first, parked.last), (three, three));
        assert_eq!(parked.push(me.clone()), one, "the last freed is used first");
        parked.remove(three);
        assert!(parked.first().is_some());
        parked.remove(one);
        assert!(parked.first().is_none() && parked.len() == 0);
        assert_eq!((parked.first, parked.last), (NONE, NONE));
        assert_eq!(parked.push(me), one);
    }
}
