//! Grants of one rank, shared by the group: the common [`GrantTable`] behind a lock, and a gate for each grant.
//!
//! ```text
//!   add ─► live ──(Once: first transfer)──► taken ──(copied)──► ended
//!             └──────────── revoke ───────────────────────────► ended
//! ```
//!
//! The table's lock is held only for look-ups. Copying happens under the grant's own gate, shared among
//! transfers; [`Grants::revoke`] shuts the gate, that is, waits until the transfers inside are done. So
//! nothing moves after it returns, and long copies do not stand in each other's way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use weft_atomic::{AtomicBool, Ordering};
use weft_fabric::grants::{Grant, GrantTable, Refusal, TransferRequest};
use weft_fabric::{Region, Token};

/// A grant with its gate.
struct GatedGrant {
    grant: Grant,
    /// Taken by its one transfer, if it is for one use.
    taken: AtomicBool,
    /// Whether bytes may move; held for reading while they do.
    open: RwLock<bool>,
}

// SAFETY: a Grant is plain data but for its Region, which is Copy and Send: sharing a reference to one gives no more
// than sending a copy does. All other fields may be shared.
unsafe impl Sync for GatedGrant {}

impl GatedGrant {
    /// Shuts the gate: waits for the copies that are being made.
    fn shut(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

#[derive(Default)]
pub(crate) struct Grants {
    table: Mutex<GrantTable<Arc<GatedGrant>>>,
}

impl Grants {
    /// The table is consistent between any two steps, so a panic elsewhere does not spoil it.
    fn table(&self) -> MutexGuard<'_, GrantTable<Arc<GatedGrant>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a grant; `None` if there is no token left for it.
    pub(crate) fn add(&self, grant: Grant) -> Option<Token> {
        let gated = Arc::new(GatedGrant {
            grant,
            taken: AtomicBool::new(false),
            open: RwLock::new(true),
        });
        self.table().insert(gated)
    }

    /// Ends a grant; true if it was live. Waits for copies that are being made.
    pub(crate) fn revoke(&self, token: Token) -> bool {
        let Some(gated) = self.table().remove(token) else {
            return false;
        };
        gated.shut();
        // A taken one has served, or failed: either way it had already ended.
        !gated.taken.load(Ordering::Relaxed)
    }

    /// Ends all grants. Waits for copies that are being made.
    pub(crate) fn close(&self) {
        let ended = self.table().remove_all();
        for gated in ended {
            gated.shut();
        }
    }

    /// Checks a transfer and calls `copy` with the window that the transfer may access.
    pub(crate) fn transfer(
        &self,
        request: &TransferRequest,
        copy: impl FnOnce(&Region),
    ) -> Result<(), Refusal> {
        let gated = self.table().get(request.token).cloned();
        let gated = gated.ok_or(Refusal::NotGranted)?;
        let window = gated.grant.window(request)?;
        let once = gated.grant.is_for_once();
        // Relaxed: it does not matter which of two transfers is first, only that one is.
        if once && gated.taken.swap(true, Ordering::Relaxed) {
            return Err(Refusal::NotGranted);
        }
        {
            let open = gated.open.read().unwrap_or_else(PoisonError::into_inner);
            if !*open {
                return Err(Refusal::NotGranted);
            }
            copy(&window);
        }
        if once {
            self.table().remove(request.token);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::grants::Access;
    use weft_fabric::{Peer, Rights, Uses};

    #[test]
    fn revoking_waits_for_those_inside() {
        let grants = Grants::default();
        let grant = Grant::new(Region::EMPTY, None, Rights::Read, Uses::Many);
        let token = grants.add(grant).expect("fits");
        let inside = std::sync::Barrier::new(2);
        let copied = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let request = TransferRequest {
                    caller: Peer(1),
                    token,
                    offset: 0,
                    length: 0,
                    access: Access::Read,
                };
                let moved = grants.transfer(&request, |_| {
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
