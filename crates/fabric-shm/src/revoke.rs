//! Taking a grant back while users are inside. What is guaranteed stands in `grants.rs`.

use std::time::Duration;

use weft_fabric::{Peer, Token};
use weft_sys::clock;

use crate::endpoint::Shm;
use crate::grants::Inside;
use crate::portal::Way;

/// Looks before the waiting gets slower: a copy of a few MiB has ended by then.
const QUICK_LOOKS: u32 = 2000;

/// Between two looks after that.
const PAUSE: Duration = Duration::from_micros(100);

impl Shm {
    /// Ends a grant. True if it was live.
    pub(crate) fn end_grant(&mut self, token: Token) -> bool {
        let Some((index, live)) = self.grants.close(&self.segment, token) else {
            return false;
        };
        self.cancel_served(token);
        match self.who_is_inside(index) {
            Inside::Nobody => self.grants.free(index),
            Inside::Readers | Inside::Others => self.let_out(index),
        }
        live
    }

    fn who_is_inside(&self, index: u32) -> Inside {
        self.grants.inside(&self.segment, index, |peer: Peer| {
            // Who copies by pointer must not do so after the memory is gone, whatever it notices then.
            self.ways.get(peer.index()) != Some(&Way::Copy)
        })
    }

    /// Waits until nobody is inside, or only readers that have had their time.
    #[cold]
    fn let_out(&mut self, index: u32) {
        let patience = clock::deadline_after(self.patience);
        let mut looks = 0;
        loop {
            match self.who_is_inside(index) {
                Inside::Nobody => return self.grants.free(index),
                Inside::Readers if clock::monotonic() >= patience => {
                    return self.grants.give_up(&self.segment, index);
                }
                Inside::Readers | Inside::Others => {}
            }
            if looks < QUICK_LOOKS {
                looks += 1;
                std::thread::yield_now();
            } else {
                std::thread::sleep(PAUSE);
            }
        }
    }
}
