//! Blocking collectives among neighbours whose messages are small: they leave at once, and are looked for without a request.
//!
//! ```text
//!   all that are to be sent ──► leave ──► those to be received, one after the other ──► are here: the end
//!                 └── one does not             └── one is not, or is not what is expected
//!                         └──────────────────────────┴──► a schedule of what is left, with the same number
//! ```
//!
//! The messages are those of the schedule, so that other members may go either way.

use super::{Comm, Form};
use crate::buffer::Buffer;
use crate::coll::NeighbourExchange;
use crate::error::Result;
use crate::schedule::CollectiveContext;

impl Comm {
    /// Carries out a blocking collective among neighbours; `None`, without effect, if none of it can be done at once.
    #[inline]
    pub(super) fn run_among_neighbours(
        &self,
        exchange: &NeighbourExchange<'_>,
    ) -> Option<Result<()>> {
        let mut engine = self.shared().try_by_bias()?;
        if exchange.has_itself() || !engine.may_exchange_at_once() {
            return None;
        }
        let (context, number) = (self.context() | 1, self.next_number(Form::Blocking));
        let named = (context, CollectiveContext::tag_of(number));
        let (mut sent, mut received, mut is_over) = (0, 0, true);
        for (rank, data) in exchange.outgoing() {
            is_over = match data {
                Buffer::Flat(region, _) => {
                    engine.send_in_exchange(&region, named, self.peers().peer(rank))
                }
                Buffer::Typed(_) => false,
            };
            if !is_over {
                break;
            }
            sent += 1;
        }
        if is_over {
            let bell = self.shared().bell();
            for (rank, into) in exchange.incoming() {
                is_over = match into {
                    Buffer::Flat(region, _) => {
                        engine.receive_in_exchange(&region, named, self.peers().peer(rank), bell)
                    }
                    Buffer::Typed(_) => false,
                };
                if !is_over {
                    break;
                }
                received += 1;
            }
        }
        if is_over {
            engine.end_exchange(exchange.name());
            return Some(Ok(()));
        }
        drop(engine);
        Some(self.end_exchange(exchange, (sent, received), number))
    }

    /// Does what is left of it, behind so many messages.
    #[inline(never)]
    fn end_exchange(
        &self,
        exchange: &NeighbourExchange<'_>,
        (sent, received): (usize, usize),
        number: u32,
    ) -> Result<()> {
        let schedule = exchange.schedule_behind(sent, received)?;
        let context = CollectiveContext::new(self.context() | 1, self.translation(), number);
        self.run_schedule_as(schedule, context)
    }
}
