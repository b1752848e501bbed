//! The datapath beside all that it does not trust: the text of a description, questions to the broker and the
//! pieces in which they come, capabilities for a client, frames from the wire, and a client that writes anything
//! into its queues, also when its successor has others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use weft_net::broker::{Answer, LONGEST, LineProgress, PartialLine, Question};
use weft_net::client::Work;
use weft_net::description::Description;
use weft_net::plan;
use weft_net::policy::{CLIENTS, Choice};
use weft_net::system::{Capabilities, ComponentId, PHASES, Role, System};
use weft_net::wire::Far;
use weft_net_testbed::simulation::Simulation;
use weft_net_testbed::{Flow, Generator, Pattern};
use weft_sys::Mapping;

use super::script::Script;

/// The first byte chooses who reads the rest.
pub fn run(bytes: &[u8]) {
    let (which, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let text = String::from_utf8_lossy(rest);
    match which % 5 {
        0 => description(&text),
        1 => question(&text),
        2 => capabilities(&text),
        3 => scene(&mut Script::new(rest)),
        _ => line(&mut Script::new(rest)),
    }
}

/// However a line is cut into pieces, what is heard is all before its end, or that it is too long.
fn line(script: &mut Script<'_>) {
    let filler = usize::from(script.short()) % (LONGEST + 100);
    let mut text = vec![b'x'; filler];
    let tail = usize::from(script.byte());
    text.extend_from_slice(script.bytes(tail));
    let end = text.iter().position(|&byte| byte == b'\n');
    let mut line = PartialLine::default();
    let mut rest = &text[..];
    while !rest.is_empty() {
        let most = 1 + usize::from(script.short()) % 8_192;
        let (piece, others) = rest.split_at(most.min(rest.len()));
        rest = others;
        match line.push(piece) {
            LineProgress::Incomplete => {}
            LineProgress::Whole(heard) => {
                assert!(heard.len() <= LONGEST);
                assert_eq!(heard, text[..end.expect("there was one")]);
                return;
            }
            LineProgress::TooLong => {
                assert!(end.unwrap_or(text.len()) > LONGEST);
                return;
            }
        }
    }
    assert!(end.is_none() && text.len() <= LONGEST);
}

/// Two echo clients of small queues.
fn small() -> Description {
    let mut description = Description::of(&[Work::Echo; 2]);
    description.queue = 16;
    description.window = 8;
    description
}

fn description(text: &str) {
    match Description::parse(text) {
        Ok(found) => {
            assert!((1..=CLIENTS).contains(&found.clients.len()));
            assert!(found.queue.is_power_of_two() && found.window <= found.queue);
            let limits = found
                .clients
                .iter()
                .flat_map(|one| [one.rx_queue, one.tx_queue]);
            assert!(
                limits
                    .flatten()
                    .all(|limit| (1..=found.queue).contains(&limit))
            );
            let _ = found.choice().build();
        }
        Err(mistake) => {
            assert!(!mistake.message.is_empty());
            let lines = text.lines().count().max(1) + 1;
            assert!(mistake.line.is_none_or(|line| (1..=lines).contains(&line)));
        }
    }
}

/// What is understood is the same when it is said again; a policy is followed, whatever its numbers.
fn question(text: &str) {
    let _ = serde_json::from_str::<Answer>(text);
    let Ok(question) = serde_json::from_str::<Question>(text) else {
        return;
    };
    let again = serde_json::to_string(&question).expect("it is plain data");
    assert!(serde_json::from_str::<Question>(&again).is_ok(), "{again}");
    if let Question::Policy(choice) = question {
        follow(&choice);
    }
}

/// Both clients are served under a policy of any numbers, or wait for a moment that it names.
fn follow(choice: &Choice) {
    let mut scene = Scene::new(small(), None).expect("a small system can be made");
    scene.simulation.system_mut().set_policy(choice);
    for number in 0..20 {
        scene.frame(echo(number % 2));
        scene.run(20_000);
    }
}

/// Capabilities whose role is not what its descriptors are: an error, never a fault.
fn capabilities(text: &str) {
    let Ok(role) = serde_json::from_str::<Role>(text) else {
        return;
    };
    let system = System::create(small()).expect("a small system can be made");
    let own = system
        .capabilities(ComponentId::Client(0))
        .expect("descriptors are left");
    // Of what a broker says only the part for clients is read by others than its own children.
    if matches!(role, Role::Client { .. }) {
        let (_, descriptors) = own.into_parts();
        let given = Capabilities::from_parts(role, descriptors).silent();
        let _ = given.into_client();
    }
}

/// The far end: frames in, frames out.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Ends>>);

#[derive(Default)]
struct Ends {
    coming: VecDeque<Vec<u8>>,
    arrived: u64,
}

impl Far for Wire {
    fn arrived(&mut self, frame: &[u8], _now: u64) {
        assert!(frame.len() >= 14, "shorter than a header");
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .arrived += 1;
    }
    fn next(&mut self) -> Option<u64> {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!ends.coming.is_empty()).then_some(0)
    }
    fn emit(&mut self, into: &mut [u8]) -> usize {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(frame) = ends.coming.pop_front() else {
            return 0;
        };
        into[..frame.len()].copy_from_slice(&frame);
        frame.len()
    }
}

/// A whole system in virtual time, whose wire and one of whose clients are played here.
struct Scene {
    simulation: Simulation,
    wire: Wire,
    /// Both channels of the client that is played here, if one is.
    channels: Vec<Mapping>,
}

impl Scene {
    /// `absent`: this client is not there; its channels are ours to write.
    fn new(description: Description, absent: Option<usize>) -> Option<Self> {
        let wire = Wire::default();
        let absent = absent.map(ComponentId::Client);
        let simulation = Simulation::new(description, Box::new(wire.clone()), absent).ok()?;
        let channels = match absent {
            Some(id) => reached(simulation.system().capabilities(id).ok()?)?,
            None => Vec::new(),
        };
        Some(Self {
            simulation,
            wire,
            channels,
        })
    }

    /// The client that is played is gone and has a successor. Who plays it has its channels then, or goes on
    /// with those of the predecessor.
    fn succeed(&mut self, takes_new: bool) {
        for phase in 0..PHASES {
            let reattached = self
                .simulation
                .system_mut()
                .reattach(ComponentId::Client(1), phase);
            let reattached = reattached.expect("memory is left");
            assert!(reattached.cut_off.is_empty());
            self.run(1_000);
            for id in reattached.told {
                assert!(self.simulation.system().has_followed(id), "{id:?}");
            }
        }
        if takes_new {
            let capabilities = self
                .simulation
                .system()
                .capabilities(ComponentId::Client(1))
                .expect("descriptors are left");
            self.channels = reached(capabilities).expect("they can be mapped");
        }
    }

    fn frame(&self, frame: Vec<u8>) {
        let mut ends = self.wire.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.coming.push_back(frame);
    }

    /// Lets so many nanoseconds pass. Each look must come to an end.
    fn run(&mut self, nanoseconds: u64) {
        let end = self.simulation.now() + nanoseconds;
        while self.simulation.now() < end {
            let mut steps = 0;
            while self.simulation.step() {
                steps += 1;
                assert!(steps < 10_000, "it never comes to rest");
            }
            self.simulation.advance(end);
        }
    }
}

/// The channels of a client, as it can write them.
fn reached(capabilities: Capabilities) -> Option<Vec<Mapping>> {
    let channels = capabilities.into_channels().ok()?;
    Some(channels.map(|(memory, _)| memory).into())
}

/// A datagram that a client echoes.
fn echo(client: usize) -> Vec<u8> {
    let flow = Flow {
        client,
        bits: 1_000_000,
        payload: 100,
        from: 0,
        until: u64::MAX,
        pattern: Pattern::Steady,
    };
    let (mut generator, _) = Generator::new(&[flow]);
    let mut frame = vec![0; 2048];
    let length = generator.emit(&mut frame);
    frame.truncate(length);
    frame
}

/// Frames of any contents, and client 1 writes what it likes. Client 0 goes on being served.
fn scene(script: &mut Script<'_>) {
    let mut scene = Scene::new(small(), Some(1)).expect("a small system can be made");
    let (mut generator, _) = Generator::new(&[]);
    for _ in 0..64 {
        if script.is_over() {
            break;
        }
        match script.byte() % 8 {
            0..=2 => {
                // To somebody, with contents that are mostly well-formed up to a place.
                let mut frame = echo(usize::from(script.byte() % 2));
                match script.byte() % 4 {
                    0 => frame[..6].fill(0xff),
                    1 => frame[..6].copy_from_slice(&plan::address(77)),
                    _ => {}
                }
                for _ in 0..script.byte() % 8 {
                    let place = usize::from(script.byte()) % frame.len();
                    frame[place] = script.byte();
                }
                if script.byte().is_multiple_of(4) {
                    frame.truncate(usize::from(script.byte()));
                }
                generator.arrived(&frame, scene.simulation.now());
                if !frame.is_empty() {
                    scene.frame(frame);
                }
            }
            3 => {
                let length = usize::from(script.short()) % 1600 + 1;
                let mut frame = vec![0; length];
                let given = script.bytes(length);
                frame[..given.len()].copy_from_slice(given);
                generator.arrived(&frame, scene.simulation.now());
                scene.frame(frame);
            }
            4..=6 => {
                let channel = &scene.channels[usize::from(script.byte() % 2)];
                let ring = channel.len() / 2 * usize::from(script.byte() % 2);
                let (offset, word) = match script.byte() % 4 {
                    // Indices near the truth, indices, a descriptor that could be, a descriptor.
                    0 => (128 * usize::from(script.byte() % 3), script.byte().into()),
                    1 => (128 * usize::from(script.byte() % 2), script.long()),
                    2 => (
                        384 + 8 * usize::from(script.byte() % 16),
                        u64::from(script.byte()) << 11 | u64::from(script.short()) << 32,
                    ),
                    _ => (384 + 8 * usize::from(script.byte() % 16), script.long()),
                };
                if let Some(there) = channel.atomic_u64(ring + offset) {
                    there.store(word, weft_atomic::Ordering::Relaxed);
                }
            }
            _ => match script.byte() % 8 {
                0 => scene.succeed(true),
                1 => scene.succeed(false),
                _ => scene.run(50_000),
            },
        }
    }
    scene.run(500_000);
    let arrived = |scene: &Scene| {
        let ends = scene.wire.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.arrived
    };
    // Whatever came before: the other client still answers. Its neighbour's address was learnt from a
    // frame, or is asked for: a frame leaves either way.
    let before = arrived(&scene);
    for _ in 0..4 {
        scene.frame(echo(0));
        scene.run(2_000_000_000);
    }
    assert!(arrived(&scene) > before, "client 0 is not served any more");
}
