//! Actions: what a step of a play does, and how often each is drawn.

use rand::Rng;
use rand::rngs::StdRng;

/// The action of a step.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Send,
    Signal,
    Grant,
    Offer,
    Transfer,
    Revoke,
    Farewell,
    Flood,
    Cut,
    Stall,
    Jump,
    Pass,
    Look,
}

/// The weight of each action in both kinds of play: of all services, of portals.
const KINDS: [[(Action, u32); 13]; 2] = {
    use Action::{
        Cut, Farewell, Flood, Grant, Jump, Look, Offer, Pass, Revoke, Send, Signal, Stall, Transfer,
    };
    [
        [
            (Send, 260),
            (Signal, 60),
            (Grant, 50),
            (Offer, 20),
            (Transfer, 70),
            (Revoke, 20),
            (Farewell, 10),
            (Flood, 10),
            (Cut, 20),
            (Stall, 10),
            (Jump, 60),
            (Pass, 90),
            (Look, 340),
        ],
        [
            (Send, 20),
            (Signal, 10),
            (Grant, 80),
            (Offer, 60),
            (Transfer, 180),
            (Revoke, 60),
            (Farewell, 2),
            (Flood, 0),
            (Cut, 30),
            (Stall, 5),
            (Jump, 150),
            (Pass, 60),
            (Look, 400),
        ],
    ]
};

/// Weights of the actions, of one kind of play.
pub struct Weights([(Action, u32); 13]);

impl Weights {
    /// The weights of one kind of play.
    pub fn draw(random: &mut StdRng) -> Self {
        Self(KINDS[random.random_range(0..KINDS.len())])
    }

    /// The action of a step.
    pub fn draw_action(&self, random: &mut StdRng) -> Action {
        let sum: u32 = self.0.iter().map(|(_, weight)| weight).sum();
        let mut draw = random.random_range(0..sum);
        for (action, weight) in self.0 {
            if draw < weight {
                return action;
            }
            draw -= weight;
        }
        Action::Look
    }
}
