//! Properties of channels: several endpoints of each member. A fabric that has one channel passes.

use super::scene::{BUDGET, Scene};
use super::{Inbox, Memory, PATIENCE, Stage, message_data, numbered};
use crate::{Fabric, Operation, Peer, Posted, Rights, SyncKey, Uses, forward_fabric};

/// A member in one of its other channels, with its endpoint of channel 0, which stays open as long: for the whole suite over a
/// channel.
pub struct InChannel {
    // Dropped first.
    inner: Box<dyn Fabric>,
    /// Says when the member leaves.
    _first: Box<dyn Fabric>,
}

impl InChannel {
    /// The same members in this channel.
    ///
    /// # Panics
    /// If the fabric does not have it.
    #[must_use]
    pub fn of(endpoints: Vec<Box<dyn Fabric>>, channel: u32) -> Vec<Box<dyn Fabric>> {
        let open = |mut first: Box<dyn Fabric>| {
            let inner = first.open_channel(channel).expect("the channel is there");
            Box::new(Self {
                inner,
                _first: first,
            }) as Box<dyn Fabric>
        };
        endpoints.into_iter().map(open).collect()
    }
}

impl Fabric for InChannel {
    forward_fabric!(self => self.inner; me, peers, incarnation, has_unreported_members, limits, bell, now, route, try_send, try_send_part, inject, take_next, poll,
        grant, offer, revoke, get, put, signal, signals, take_signals, forget,
        shares_memory, allocate_shared, release_shared, attach_shared, is_asleep, wake, is_any_beside, is_flushed, traffic,
        say_goodbye);
}

/// The second channel of each member; `None` if the fabric has one.
fn second(scene: &mut Scene) -> Option<Vec<Box<dyn Fabric>>> {
    let mut all = scene.endpoints.iter_mut();
    if all.by_ref().all(|endpoint| endpoint.channels() == 1) {
        return None;
    }
    let open = |endpoint: &mut Box<dyn Fabric>| endpoint.open_channel(1).expect("a channel");
    Some(scene.endpoints.iter_mut().map(open).collect())
}

/// Messages, signals and grants of one channel are not seen in another, and each keeps its order.
pub fn channels_are_apart(stage: &dyn Stage) {
    const COUNT: u64 = 200;
    const KEY: SyncKey = SyncKey(3);
    let mut scene = Scene::new(stage, 2);
    let Some(mut others) = second(&mut scene) else {
        return;
    };
    let memory = Memory::filled(64, 7);
    let token = others[0].grant(memory.region(), None, Rights::ReadWrite, Uses::Many);
    let token = token.expect("there is room");
    let into = Memory::filled(64, 0);
    let mut came = Inbox::default();
    for number in 0..COUNT {
        scene.send(0, 1, number, 40);
        // Other data: those of a third sender.
        let (head, data) = (numbered(2, number), message_data(2, number, 24));
        while others[0].try_send(Peer(1), &head, &data) != Ok(Posted::Done) {
            others[1].poll(&mut came, BUDGET);
        }
    }
    while others[0].signal(Peer(1), KEY) != Ok(Posted::Done) {
        others[1].poll(&mut came, BUDGET);
    }
    scene.until("the messages of channel 0", |scene| {
        scene.inboxes[1].messages() as u64 == COUNT
    });
    while others[1].signals(Peer(0), KEY) == 0 {
        others[1].poll(&mut came, BUDGET);
    }
    assert_eq!(scene.endpoints[1].signals(Peer(0), KEY), 0);
    assert_eq!(came.messages() as u64, COUNT);
    for ((head, data), number) in came.of(0).zip(0..) {
        assert_eq!(*head, numbered(2, number));
        assert_eq!(data, message_data(2, number, 24));
    }
    scene.inboxes[1].check(0, COUNT, |_| 40);
    let operation = Operation(1);
    let posted = others[1].get(Peer(0), token, 0, into.region(), operation);
    if posted == Ok(Posted::Pending) {
        while came.transfer_completed(operation).is_none() {
            others[0].poll(&mut Inbox::default(), BUDGET);
            others[1].poll(&mut came, BUDGET);
        }
    } else {
        assert_eq!(posted, Ok(Posted::Done));
    }
    assert_eq!(into.bytes(), [7; 64]);
    others[0].revoke(token);
}

/// A channel is opened once; what was sent there before waits for that. There is none beyond the last.
pub fn a_channel_waits_to_be_opened(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let channels = scene.endpoints[0].channels();
    assert!((1..=crate::MOST_CHANNELS).contains(&channels));
    assert_eq!(scene.endpoints[1].channels(), channels);
    assert!(scene.endpoints[0].open_channel(channels).is_err());
    assert!(scene.endpoints[0].open_channel(0).is_err());
    if channels == 1 {
        return;
    }
    let mut early = scene.endpoints[0].open_channel(1).expect("a channel");
    assert!(scene.endpoints[0].open_channel(1).is_err(), "it is open");
    assert!(early.open_channel(1).is_err(), "no channel has channels");
    let (head, data) = (numbered(0, 0), message_data(0, 0, 30));
    assert_eq!(early.try_send(Peer(1), &head, &data), Ok(Posted::Done));
    scene.poll(1, BUDGET);
    let mut late = scene.endpoints[1].open_channel(1).expect("a channel");
    let mut came = Inbox::default();
    while came.messages() == 0 {
        late.poll(&mut came, BUDGET);
    }
    came.check(0, 1, |_| 30);
    assert_eq!(scene.inboxes[1].messages(), 0);
}

/// Who sleeps in one channel is woken by news of another one whose bell rings that as well, and not by it after that is over.
pub fn a_bell_is_rung_for_another_channel(stage: &dyn Stage) {
    let mut scene = Scene::new(stage, 2);
    let Some(mut others) = second(&mut scene) else {
        return;
    };
    let (sleeps, rung) = (scene.endpoints[1].bell(), others[1].bell());
    let mut came = Inbox::default();
    for round in 0..20_u64 {
        let ticket = sleeps.prepare();
        rung.ring_as_well(Some(0));
        let other = rung.prepare();
        others[1].poll(&mut came, BUDGET);
        let (head, data) = (numbered(0, round), message_data(0, round, 10));
        assert_eq!(others[0].try_send(Peer(1), &head, &data), Ok(Posted::Done));
        let before = scene.endpoints[1].now();
        sleeps.wait(ticket, Some(PATIENCE));
        let slept = scene.endpoints[1].now() - before;
        assert!(
            slept < PATIENCE,
            "news of the other channel were slept through"
        );
        rung.cancel(other);
        rung.ring_as_well(None);
    }
    while came.messages() < 20 {
        others[1].poll(&mut came, BUDGET);
    }
    came.check(0, 20, |_| 10);
}
