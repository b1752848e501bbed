//! What one rank permits: a table of grants by token.
//!
//! ```text
//!   token = generation << 32 | place + 1      place in the table; generation of its present grant, below 2³¹
//!
//!   add ─► live ──(Once: first transfer)──► taken ──(copied)──► ended
//!             └──────────── revoke ───────────────────────────► ended
//! ```
//!
//! The table's lock is held for looking only. Copying happens under the grant's own gate, shared among
//! transfers; [`Grants::revoke`] shuts the gate, that is, waits until those inside are done. So nothing
//! moves after it returns, and long copies do not stand in each other's way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use weft_atomic::{AtomicBool, Ordering};
use weft_fabric::{FabricError, Peer, Region, Result, Rights, Token, Uses};

/// The last generation of a place.
const LAST: u32 = u32::MAX >> 1;

/// One grant.
struct Grant {
    region: Region,
    to: Option<Peer>,
    rights: Rights,
    uses: Uses,
    /// Taken by the one transfer that it is for.
    taken: AtomicBool,
    /// Whether bytes may move. Read while they do.
    open: RwLock<bool>,
}

// SAFETY: a Region is Copy and Send: sharing a reference to one gives no more than sending a copy
// does. All other fields may be shared.
unsafe impl Sync for Grant {}

#[derive(Default)]
struct Place {
    generation: u32,
    grant: Option<Arc<Grant>>,
}

#[derive(Default)]
struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Default)]
pub(crate) struct Grants {
    table: Mutex<Table>,
}

impl Grants {
    /// The table is whole between any two steps, so a panic elsewhere does not spoil it.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a grant; `None` if there are 2³² already.
    pub(crate) fn add(
        &self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Option<Token> {
        let grant = Arc::new(Grant {
            region,
            to,
            rights,
            uses,
            taken: AtomicBool::new(false),
            open: RwLock::new(true),
        });
        let mut table = self.table();
        let index = match table.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(table.places.len()).ok()?;
                // The last number has no token.
                index.checked_add(1)?;
                table.places.push(Place::default());
                index
            }
        };
        let place = &mut table.places[index as usize];
        place.grant = Some(grant);
        Some(Token(
            u64::from(place.generation) << 32 | u64::from(index + 1),
        ))
    }

    /// Ends a grant; true if it was live. Waits for copies that are being made.
    pub(crate) fn revoke(&self, token: Token) -> bool {
        let Some(grant) = self.table().remove(token) else {
            return false;
        };
        *grant.open.write().unwrap_or_else(PoisonError::into_inner) = false;
        // A taken one has served, or failed: either way it was at its end by itself.
        !grant.taken.load(Ordering::Relaxed)
    }

    /// Ends all grants.
    pub(crate) fn close(&self) {
        let places = std::mem::take(&mut self.table().places);
        for grant in places.into_iter().filter_map(|place| place.grant) {
            *grant.open.write().unwrap_or_else(PoisonError::into_inner) = false;
        }
    }

    /// Moves `length` bytes by the grant `(owner, token, offset)` on behalf of `caller`: checks, then
    /// calls `copy` with the window.
    pub(crate) fn transfer(
        &self,
        (owner, token, offset): (Peer, Token, u64),
        caller: Peer,
        length: usize,
        right: fn(Rights) -> bool,
        copy: impl FnOnce(&Region),
    ) -> Result<()> {
        let not_granted = || FabricError::NotGranted { peer: owner };
        let grant = self.table().find(token).cloned().ok_or_else(not_granted)?;
        if grant.to.is_some_and(|peer| peer != caller) {
            return Err(not_granted());
        }
        let window = usize::try_from(offset)
            .ok()
            .and_then(|offset| grant.region.part(offset, length))
            .filter(|_| right(grant.rights))
            .ok_or(FabricError::OutsideGrant {
                peer: owner,
                offset,
                length: length as u64,
            })?;
        // Relaxed: which of two transfers is first does not matter, that there is one first does.
        if grant.uses == Uses::Once && grant.taken.swap(true, Ordering::Relaxed) {
            return Err(not_granted());
        }
        {
            let open = grant.open.read().unwrap_or_else(PoisonError::into_inner);
            if !*open {
                return Err(not_granted());
            }
            copy(&window);
        }
        if grant.uses == Uses::Once {
            self.table().remove(token);
        }
        Ok(())
    }
}

impl Table {
    fn place(&mut self, token: Token) -> Option<(u32, &mut Place)> {
        let generation = (token.0 >> 32) as u32;
        let index = (token.0 as u32).checked_sub(1)?;
        let place = self.places.get_mut(index as usize)?;
        (place.generation == generation).then_some((index, place))
    }

    fn find(&mut self, token: Token) -> Option<&Arc<Grant>> {
        self.place(token)?.1.grant.as_ref()
    }

    fn remove(&mut self, token: Token) -> Option<Arc<Grant>> {
        let (index, place) = self.place(token)?;
        let grant = place.grant.take()?;
        // A place whose generations are used up is not used again. The highest bit of a token stays 0.
        if place.generation < LAST {
            place.generation += 1;
            self.free.push(index);
        }
        Some(grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_one_place_differ() {
        let grants = Grants::default();
        let add = || grants.add(Region::EMPTY, None, Rights::Read, Uses::Many);
        let first = add().expect("fits");
        assert!(grants.revoke(first));
        let second = add().expect("fits");
        assert_ne!(first, second);
        assert_eq!(first.0 as u32, second.0 as u32, "the place is used again");
        assert!(!grants.revoke(first));
        assert!(grants.revoke(second));
    }

    #[test]
    fn a_place_with_its_generations_used_up_is_left_alone() {
        let grants = Grants::default();
        grants.table().places.push(Place {
            generation: LAST,
            grant: None,
        });
        grants.table().free.push(0);
        let add = || grants.add(Region::EMPTY, None, Rights::Read, Uses::Many);
        let last = add().expect("fits");
        assert_eq!(last.0 >> 32, u64::from(LAST));
        assert_eq!(last.0 >> 63, 0);
        assert!(grants.revoke(last));
        assert_eq!(add().expect("fits").0, 2);
    }

    #[test]
    fn revoking_waits_for_those_inside() {
        let grants = Grants::default();
        let token = grants
            .add(Region::EMPTY, None, Rights::Read, Uses::Many)
            .expect("fits");
        let inside = std::sync::Barrier::new(2);
        let copied = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let at = (Peer(0), token, 0);
                let moved = grants.transfer(at, Peer(1), 0, Rights::reads, |_| {
                    inside.wait();
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    copied.store(true, Ordering::SeqCst);
                });
                assert_eq!(moved, Ok(()));
            });
            inside.wait();
            assert!(grants.revoke(token));
            assert!(copied.load(Ordering::SeqCst));
        });
    }
}
