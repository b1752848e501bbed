//! Leaving: how a rank leaves. It hands over what it has taken for sending, and says goodbye. If something cannot leave, the
//! time that it keeps trying depends on whether the receivers have said goodbye themselves.

use std::time::{Duration, Instant};

use weft_fabric::{Bell, Deaf, Fabric};

use super::Ofi;
use crate::asked::Asked;
use crate::held::Remains;
use crate::serving::Serving;

/// How long a rank that leaves tries to hand over what it has taken for sending.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);

/// How long it tries if all receivers have said goodbye: they may be gone, which the provider does not
/// report.
const DRAIN_AFTER_GOODBYE: Duration = Duration::from_millis(250);

/// Whether to try longer for what remains, after trying for `tried`.
fn tries_on(remains: Remains, tried: Duration) -> bool {
    match remains {
        Remains::Nothing => false,
        Remains::AfterGoodbye => tried < DRAIN_AFTER_GOODBYE,
        Remains::ForOthers => tried < LONGEST_DRAIN,
    }
}

impl Drop for Ofi {
    /// Hands over what was taken for sending, and says goodbye.
    fn drop(&mut self) {
        let start = Instant::now();
        self.say_goodbye();
        // What was taken has to leave; nobody checks who has read it, as there may be no reader any more.
        while tries_on(self.mail.remains(), start.elapsed()) {
            if self.look(&mut Deaf, 64) == 0 {
                let bell = self.bell.clone();
                let ticket = bell.prepare();
                bell.wait(ticket, Some(Duration::from_millis(1)));
            }
        }
        // The endpoint ends before the registrations that it uses, and those before the rest.
        self.mail.device.stop();
        self.asked = Asked::default();
        self.serving = Serving::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::Peer;

    #[test]
    fn a_leaving_endpoint_tries_longer_for_peers_that_are_there() {
        assert!(!tries_on(Remains::Nothing, Duration::ZERO));
        for remains in [Remains::AfterGoodbye, Remains::ForOthers] {
            assert!(tries_on(remains, Duration::ZERO));
        }
        assert!(!tries_on(Remains::AfterGoodbye, DRAIN_AFTER_GOODBYE));
        assert!(tries_on(Remains::ForOthers, DRAIN_AFTER_GOODBYE));
        assert!(!tries_on(Remains::ForOthers, LONGEST_DRAIN));
    }

    /// A buffer that a provider never returns: its message was for a peer that said goodbye and ended.
    #[test]
    fn messages_held_for_lost_peers_alone_are_known() {
        if crate::found().is_err() {
            return;
        }
        let mut group = Ofi::group(3, "tcp").expect("endpoints on loopback");
        let mail = &mut group[0].mail;
        for peer in [1, 2] {
            mail.open(Peer(peer)).expect("a link");
        }
        assert_eq!(mail.remains(), Remains::Nothing);
        let gone = mail.held.take(1).expect("free");
        assert_eq!(mail.remains(), Remains::ForOthers, "it is there");
        mail.link(1).expect("a link").is_over = true;
        assert_eq!(mail.remains(), Remains::AfterGoodbye);
        let other = mail.held.take(2).expect("free");
        assert_eq!(mail.remains(), Remains::ForOthers);
        mail.sent(other);
        assert_eq!(mail.remains(), Remains::AfterGoodbye);
        mail.sent(gone);
        assert_eq!(mail.remains(), Remains::Nothing);
        // The other endpoints are not driven, so nothing would reach them.
        for one in group {
            one.die();
        }
    }
}
