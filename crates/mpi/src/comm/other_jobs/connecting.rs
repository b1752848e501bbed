//! Connecting: how each member of two groups gets the intercommunicator with the other one.

use std::sync::Arc;

use weft_fabric::Region;

use super::super::inter::Greeting;
use super::super::{Comm, Remote, Shape};
use super::connector::{BridgeMembers, Line, ListeningEnd, Terms};
use super::meeting::{BridgeEnd, Meeting};
use super::plan::{Plan, RECORD, Record};
use crate::buffer;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::schedule::{Schedule, Span, Step};

impl Comm {
    /// The meeting that its members are from, if they may be of several jobs.
    pub(crate) fn meeting(&self) -> Option<&Arc<Meeting>> {
        self.meeting.get()
    }

    /// A new context for a communicator that is made of this one, led by this process.
    pub(in crate::comm) fn draw_context(&self, channel: u32) -> Result<u32> {
        match self.meeting() {
            Some(meeting) => meeting.new_context(),
            None => self.process().new_context_in(channel),
        }
    }

    /// Nothing is decided between jobs after losses.
    ///
    /// # Errors
    /// For a communicator of several jobs.
    pub(in crate::comm) fn check_one_job(&self, name: &str) -> Result<()> {
        match self.meeting() {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorClass::Comm,
                format!(
                    "{name}: the communicator has come of a connection between two jobs, across which losses are not agreed upon; \
                     disconnect it, and go on with one of this job"
                ),
            )),
        }
    }

    /// Each member: an intercommunicator with a group of another job. `line` at the root.
    pub(in crate::comm) fn meet_other_job(
        &self,
        name: &'static str,
        root: u32,
        (accepts, terms): (bool, Terms),
        line: Option<Box<dyn Line>>,
    ) -> Result<Arc<Self>> {
        let met = self.plan_meeting(name, root, (accepts, terms), line);
        met.map_err(|error| {
            Error::new(
                ErrorClass::Port,
                format!("{name}: the two jobs could not be connected: {error}"),
            )
        })
    }

    fn plan_meeting(
        &self,
        name: &'static str,
        root: u32,
        (accepts, terms): (bool, Terms),
        mut line: Option<Box<dyn Line>>,
    ) -> Result<Arc<Self>> {
        let process = self.process();
        let text = |error: Error| error.text().to_owned();
        let listening = process
            .connector()
            .and_then(|connector| connector.listen(terms));
        let record = Record {
            next: process.meetings.free_number(),
            said: match &listening {
                Ok(listening) => Ok(listening.address()),
                Err(error) => Err(error.text().to_owned()),
            },
        };
        let ours = self.collect(name, &mut record.to_bytes(), root)?;
        let plan = line.as_mut().map(|line| {
            let exchanged = self.exchange(name, &mut **line, (&ours, accepts));
            exchanged.map_err(text)
        });
        let plan =
            self.spread_outcome(name, root, plan.map(|plan| plan.map(|it| it.to_bytes())))?;
        let opened = Plan::from_bytes(&plan)
            .ok_or_else(|| Error::new(ErrorClass::Intern, "a plan cannot be understood"))
            .and_then(|plan| self.open_meeting(&plan, accepts, listening?));
        let record = Record {
            next: 0,
            said: match &opened {
                Ok(_) => Ok(String::new()),
                Err(error) => Err(error.text().to_owned()),
            },
        };
        let ours = self.collect(name, &mut record.to_bytes(), root)?;
        let outcome = line.as_mut().map(|line| {
            let said = line.send(&ours);
            let exchanged = said.and_then(|()| self.hear_other_job(name, &mut **line));
            let theirs = exchanged.map_err(text)?;
            let all = ours.chunks(RECORD).chain(theirs.chunks(RECORD));
            for record in all {
                Record::from_bytes(record)
                    .ok_or("a message cannot be understood")?
                    .said?;
            }
            Ok(Vec::new())
        });
        self.spread_outcome(name, root, outcome)?;
        let (meeting, _bridge, remote) = opened?;
        process.connections().make_possible();
        let shape = Shape::Between(Remote::of(self.group(), Arc::new(remote), Some(&meeting)));
        let group = Arc::clone(self.group());
        Ok(
            Self::assemble(process, meeting.first_context(), group, shape)
                .expect("a member of its own group"),
        )
    }

    /// The root's part: what the members of both sides have said, and the key.
    fn exchange(
        &self,
        name: &str,
        line: &mut dyn Line,
        (ours, accepts): (&[u8], bool),
    ) -> Result<Plan> {
        let mut key = [0; 32];
        if accepts {
            key = self.process().connector()?.draw_key()?;
        }
        let mut message = key.to_vec();
        message.extend(ours);
        line.send(&message)?;
        let theirs = self.hear_other_job(name, line)?;
        let Some((their_key, theirs)) = theirs.split_first_chunk::<32>() else {
            return Err(Error::new(
                ErrorClass::Port,
                "a message of the other job cannot be understood",
            ));
        };
        let plan = match accepts {
            true => Plan::of([ours, theirs], key),
            false => Plan::of([theirs, ours], *their_key),
        };
        plan.map_err(|reason| Error::new(ErrorClass::Port, reason))
    }

    /// Opens this process's end, and notes the meeting.
    fn open_meeting(
        &self,
        plan: &Plan,
        accepts: bool,
        listening: Box<dyn ListeningEnd>,
    ) -> Result<(Arc<Meeting>, Arc<BridgeEnd>, Group)> {
        let process = self.process();
        let meetings = &process.meetings;
        if !meetings.claim(plan.number) {
            return Err(Error::new(
                ErrorClass::Port,
                "another thread of a process has connected it to another job at the same moment; connect again",
            ));
        }
        let total = plan.addresses.len() as u32;
        let (own, others) = match accepts {
            true => (0, plan.accepting..total),
            false => (plan.accepting, 0..plan.accepting),
        };
        let me = own + self.rank();
        let members = BridgeMembers {
            me,
            key: plan.key,
            addresses: plan.addresses.clone(),
            others,
        };
        let connector = Arc::clone(process.connector()?);
        let mut is_widened = meetings.is_widened();
        let mut engine = process.lock();
        if !*is_widened {
            engine.widen(|fabric| connector.widen(fabric))?;
            *is_widened = true;
        }
        // Nothing of the others is heard before there is room for it.
        let (bridge, peers) = listening.join(members)?;
        engine.make_room_for_peers();
        // What was known of others in their places is forgotten before anything is sent to them.
        engine.progress();
        drop((engine, is_widened));
        let bridge = BridgeEnd::of(connector, bridge, peers.clone());
        let local = self.group().members();
        let members = match accepts {
            true => local.chain(peers.iter().copied()).collect(),
            false => peers.iter().copied().chain(local).collect(),
        };
        let meeting = Meeting::new(plan.number, me, members, &bridge);
        meetings.note(&meeting);
        Ok((meeting, bridge, Group::of(peers)))
    }

    /// What each member says, at the root.
    fn collect(&self, name: &'static str, own: &mut [u8], root: u32) -> Result<Vec<u8>> {
        let mut all = vec![0; self.size() as usize * RECORD];
        let region = buffer::region_of(&mut all);
        let own = Span::User(buffer::region_of(own));
        let part = |rank: u32| {
            let part = region.part(rank as usize * RECORD, RECORD);
            Span::User(part.unwrap_or(Region::EMPTY))
        };
        let mut steps = Vec::new();
        if self.rank() == root {
            steps.push(Step::Copy {
                from: own,
                into: part(root),
            });
            let others = (0..self.size()).filter(|rank| *rank != root);
            steps.extend(others.map(|from| Step::Receive {
                from,
                into: part(from),
            }));
        } else {
            steps.push(Step::Send {
                to: root,
                from: own,
            });
        }
        self.run(Schedule::of(name, steps))?;
        Ok(all)
    }

    /// What the root has come to, at all members.
    fn spread_outcome(
        &self,
        name: &'static str,
        root: u32,
        outcome: Option<std::result::Result<Vec<u8>, String>>,
    ) -> Result<Vec<u8>> {
        let (ok, mut bytes) = match outcome {
            Some(Ok(bytes)) => (true, bytes),
            Some(Err(text)) => (false, text.into_bytes()),
            None => (false, Vec::new()),
        };
        let mut head = Greeting {
            context: u32::from(ok),
            size: bytes.len() as u32,
        }
        .to_bytes();
        self.spread(name, &mut head, root)?;
        let Greeting { context: ok, size } = Greeting::from_bytes(head);
        bytes.resize(size as usize, 0);
        if size > 0 {
            self.spread(name, &mut bytes, root)?;
        }
        match ok {
            0 => Err(Error::new(
                ErrorClass::Port,
                String::from_utf8_lossy(&bytes),
            )),
            _ => Ok(bytes),
        }
    }
}
