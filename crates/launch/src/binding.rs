//! Binding of ranks to cores: on which of the available cores of a host each of its ranks begins, and on which it must
//! stay.
//!
//! ```text
//!   nothing was said     near:  begins within a cache or memory node that it shares with its neighbours (if there are as many
//!                               ranks as cores: on one of its own), may go on anywhere
//!   --bind-to, --map-by  bound: stays there
//!   --bind-to none       free:  begins wherever the kernel likes
//! ```
//!
//! *Near* binds no rank: for a second job on the same cores, or a foreign program, the kernel makes room by moving ranks
//! as it moves all programs. Requests apply within what is allowed: the affinity of the launcher itself, which control
//! groups and schedulers set.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weft_sys::cores;
use weft_sys::topology::{LIBRARY, Level, Object, Topology};

/// Resources that hardware threads have in common, as sent to agents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Domain {
    /// A package.
    Package,
    /// A memory node.
    MemoryNode,
    /// A cache of the third level.
    L3Cache,
    /// A cache of the second level.
    L2Cache,
    /// A cache of the first level.
    L1Cache,
    /// A core.
    Core,
    /// A hardware thread.
    HardwareThread,
}

impl Domain {
    /// The value of a word of the command line.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "package" | "socket" | "sockets" => Self::Package,
            "numa" | "numanode" | "board" => Self::MemoryNode,
            "l3cache" | "l3" => Self::L3Cache,
            "l2cache" | "l2" => Self::L2Cache,
            "l1cache" | "l1" => Self::L1Cache,
            "core" => Self::Core,
            "hwthread" | "pu" => Self::HardwareThread,
            _ => return None,
        })
    }

    fn level(self) -> Level {
        match self {
            Self::Package => Level::Package,
            Self::MemoryNode => Level::MemoryNode,
            Self::L3Cache => Level::L3Cache,
            Self::L2Cache => Level::L2Cache,
            Self::L1Cache => Level::L1Cache,
            Self::Core => Level::Core,
            Self::HardwareThread => Level::HardwareThread,
        }
    }
}

/// What a rank is bound to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BindTo {
    /// To nothing.
    Nothing,
    /// This many objects of a kind.
    Domain(Domain, u32),
    /// These hardware threads: the first list for the first rank, the second for the second, and so on, repeatedly.
    Lists(Vec<Vec<usize>>),
}

/// Settings of the command line for the cores of ranks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BindingRequest {
    /// What ranks are bound to.
    pub bind: Option<BindTo>,
    /// Ranks are dealt to objects of this kind, in turn.
    pub map: Option<Domain>,
    /// Ranks for each object before the next gets one.
    pub per_object: Option<u32>,
    /// Cores of each rank.
    pub cores_each: Option<u32>,
    /// Neighbouring ranks share objects, although ranks are dealt to them in turn.
    pub fill: bool,
    /// The hardware threads that may be used, of those that are allowed; empty: all.
    pub threads: Vec<usize>,
    /// Whether to print where ranks run.
    pub report: bool,
}

/// The cores of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RankCores {
    /// Anywhere.
    Free,
    /// It begins on these.
    Near(Vec<usize>),
    /// It stays on these.
    Bound(Vec<usize>),
}

/// Anywhere.
pub static FREE: RankCores = RankCores::Free;

impl RankCores {
    /// For display: "is bound to 0-3".
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Free => "is not bound".into(),
            Self::Near(threads) => format!("is not bound, and begins on {}", ranges(threads)),
            Self::Bound(threads) => format!("is bound to {}", ranges(threads)),
        }
    }
}

impl BindingRequest {
    /// Whether the command line has no such setting.
    fn is_silent(&self) -> bool {
        let said = Self {
            report: false,
            ..self.clone()
        };
        said == Self::default()
    }

    /// Where this many ranks of this host run, and what to tell the user about it.
    ///
    /// # Errors
    /// A sentence, if the request cannot be met here.
    pub fn of_this_host(&self, ranks: usize) -> Result<(Vec<RankCores>, Option<String>), String> {
        let free = (vec![RankCores::Free; ranks], None);
        let allowed = match cores::allowed() {
            Ok(allowed) => allowed,
            Err(_) if self.is_silent() => return Ok(free),
            Err(error) => return Err(format!("ranks cannot be bound: {error}")),
        };
        if self.is_silent() {
            if !(2..=allowed.len()).contains(&ranks) {
                return Ok(free);
            }
            // What two cores share is all the same: finding out would take as long as to start a job.
            if allowed.len() == 2 {
                return self.place(&Topology::flat(&allowed), ranks);
            }
        }
        match Topology::of_this_machine() {
            Ok(topology) => self.place(&topology.within(&allowed), ranks),
            Err(_) if self.is_silent() => Ok(free),
            Err(error) => {
                let (places, note) = self.place(&Topology::flat(&allowed), ranks)?;
                let known = |level: Domain| matches!(level, Domain::Core | Domain::HardwareThread);
                let bound = matches!(&self.bind, Some(BindTo::Domain(level, _)) if !known(*level));
                if bound || self.map.is_some_and(|level| !known(level)) {
                    return Err(format!("what cores share is not known here: {error}"));
                }
                Ok((places, note))
            }
        }
    }

    /// Number of ranks for this host, if a number was requested for each object of a kind.
    ///
    /// # Errors
    /// A sentence, if the number of these objects is unknown.
    pub fn room(&self) -> Result<Option<u32>, String> {
        let Some((each, map)) = self.per_object.zip(self.map) else {
            return Ok(None);
        };
        let unknown =
            |error: std::io::Error| format!("what cores share is not known here: {error}");
        let topology = Topology::of_this_machine().map_err(unknown)?;
        let allowed = cores::allowed().map_err(unknown)?;
        let topology = self.restrict(&topology.within(&allowed))?;
        let objects = topology.objects(map.level()).len();
        Ok(Some(each.saturating_mul(objects as u32)).filter(|ranks| *ranks > 0))
    }

    /// Where so many ranks run on a machine of which only what is allowed is given.
    fn place(
        &self,
        topology: &Topology,
        ranks: usize,
    ) -> Result<(Vec<RankCores>, Option<String>), String> {
        let topology = &self.restrict(topology)?;
        if ranks == 0 {
            return Ok((Vec::new(), None));
        }
        if self.is_silent() {
            return Ok((near(topology, ranks), None));
        }
        let threads = |level, index: usize| topology.objects(level)[index].threads.clone();
        let (bind, count) = match self.binding() {
            BindTo::Nothing if self.threads.is_empty() => {
                return Ok((vec![RankCores::Free; ranks], None));
            }
            BindTo::Nothing => {
                let all = topology.objects(Level::HardwareThread).iter();
                let all: Vec<usize> = all.flat_map(|object| object.threads.clone()).collect();
                return Ok((vec![RankCores::Bound(all); ranks], None));
            }
            BindTo::Lists(lists) => return Ok((self.listed(topology, &lists, ranks)?, None)),
            BindTo::Domain(bind, count) => (bind.level(), count.max(1) as usize),
        };
        let objects = topology.objects(bind).len();
        if objects == 0 {
            return Err(format!(
                "ranks cannot be bound to a {}: this machine shows none",
                bind.name()
            ));
        }
        let asked = count;
        let count = count.min(objects);
        let mut used = vec![0u32; objects];
        let mut places = Vec::with_capacity(ranks);
        let mut fewest = count;
        for home in self.homes(topology, bind, count, ranks)? {
            fewest = fewest.min(home.len());
            let mut cores = Vec::new();
            for index in home {
                used[index] += 1;
                cores.extend(threads(bind, index));
            }
            cores.sort_unstable();
            places.push(RankCores::Bound(cores));
        }
        let single = matches!(bind, Level::Core | Level::HardwareThread);
        let shared = single && used.iter().any(|count| *count > 1);
        let shared = shared.then(|| {
            let (name, plural) = (bind.name(), if objects == 1 { "" } else { "s" });
            format!(
                "{ranks} ranks are bound to {objects} {name}{plural}: some share one; --bind-to none lets them run where there is room"
            )
        });
        let fewer = (single && fewest < asked).then(|| {
            let there = match self.map.map(Domain::level) {
                Some(map) if fewest < count => {
                    format!(
                        "each {} that they are dealt to has no more (--map-by)",
                        map.name()
                    )
                }
                _ => "no more may be used here".into(),
            };
            format!(
                "{asked} {}s for each rank were asked for, but ranks get {fewest}: {there}",
                bind.name()
            )
        });
        let notes = [fewer, shared];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        Ok((places, (!notes.is_empty()).then(|| notes.join("; "))))
    }

    /// To what ranks are bound if it was not said: to what they are dealt to.
    fn binding(&self) -> BindTo {
        let each = self.cores_each.unwrap_or(1);
        match (&self.bind, self.map, self.cores_each) {
            (Some(BindTo::Domain(domain @ (Domain::Core | Domain::HardwareThread), 1)), _, _) => {
                BindTo::Domain(*domain, each)
            }
            (Some(bind), _, _) => bind.clone(),
            (None, _, Some(each)) => BindTo::Domain(Domain::Core, each),
            (None, Some(map), None) => BindTo::Domain(map, 1),
            (None, None, None) => BindTo::Nothing,
        }
    }

    /// The machine without what may not be used.
    fn restrict(&self, topology: &Topology) -> Result<Topology, String> {
        if self.threads.is_empty() {
            return Ok(topology.clone());
        }
        let left = topology.within(&self.threads);
        if left.objects(Level::HardwareThread).is_empty() {
            let all = topology.objects(Level::HardwareThread).iter();
            let all: Vec<usize> = all.flat_map(|object| object.threads.clone()).collect();
            return Err(format!(
                "none of the cores {} (--cpu-set) may be used here; allowed are {}",
                ranges(&self.threads),
                ranges(&all)
            ));
        }
        Ok(left)
    }

    /// Ranks with lists of their own.
    fn listed(
        &self,
        topology: &Topology,
        lists: &[Vec<usize>],
        ranks: usize,
    ) -> Result<Vec<RankCores>, String> {
        let allowed = |thread: &usize| topology.object_of(Level::HardwareThread, *thread).is_some();
        let list = |rank: usize| {
            let wanted = &lists[rank % lists.len()];
            let list: Vec<usize> = wanted.iter().copied().filter(allowed).collect();
            match list.is_empty() {
                true => Err(format!(
                    "none of the cores {} (--bind-to user:…) may be used here",
                    ranges(wanted)
                )),
                false => Ok(RankCores::Bound(list)),
            }
        };
        (0..ranks).map(list).collect()
    }

    /// The objects of a level that each rank gets: `count`, or all of that object of it that is dealt to it.
    fn homes(
        &self,
        topology: &Topology,
        bind: Level,
        count: usize,
        ranks: usize,
    ) -> Result<Vec<Vec<usize>>, String> {
        let objects = topology.objects(bind).len();
        let Some(map) = self.map.map(Domain::level) else {
            // Neighbours together, all of the machine used.
            let room = (objects / count).max(1);
            let first = |rank: usize| match ranks <= room {
                true => rank * room / ranks * count,
                false => rank % room * count,
            };
            let home = |rank| {
                (0..count)
                    .map(|next| (first(rank) + next) % objects)
                    .collect()
            };
            return Ok((0..ranks).map(home).collect());
        };
        let dealt = topology.objects(map);
        if dealt.is_empty() {
            return Err(format!(
                "ranks cannot be dealt to {}s: this machine shows none",
                map.name()
            ));
        }
        let most = self.per_object.map(|each| each as usize * dealt.len());
        if let Some(most) = most.filter(|most| *most < ranks) {
            return Err(format!(
                "{ranks} ranks were asked for on this host, and {} for each {} (ppr): there is room for {most}",
                most / dealt.len(),
                map.name()
            ));
        }
        let whole = ranks.div_ceil(dealt.len());
        let mut had = vec![0; dealt.len()];
        let home = |rank: usize| {
            let object = match self.per_object {
                Some(each) => rank / each as usize,
                None if self.fill => rank / whole,
                None => rank % dealt.len(),
            };
            // Those of the level to be bound to that are in it; where it is in one of those, that one.
            let mut inside: Vec<usize> = (dealt[object].threads.iter())
                .filter_map(|thread| topology.object_of(bind, *thread))
                .collect();
            inside.sort_unstable();
            inside.dedup();
            let turn = had[object];
            had[object] += 1;
            if bind < map || inside.is_empty() {
                return inside;
            }
            let next = |next: usize| inside[(turn * count + next) % inside.len()];
            let mut home: Vec<usize> = (0..count).map(next).collect();
            home.sort_unstable();
            home.dedup();
            home
        };
        Ok((0..ranks).map(home).collect())
    }
}

/// Where ranks begin by default: neighbours together, spread evenly over caches and memory nodes.
fn near(topology: &Topology, ranks: usize) -> Vec<RankCores> {
    let free = vec![RankCores::Free; ranks];
    let cores = topology.objects(Level::Core);
    if !(2..=cores.len()).contains(&ranks) {
        return free;
    }
    // All are used, whoever else is there.
    if ranks == cores.len() {
        let own = |core: &Object| RankCores::Near(core.threads.clone());
        return cores.iter().map(own).collect();
    }
    let levels = [Level::L3Cache, Level::MemoryNode, Level::Package];
    let several = levels
        .iter()
        .find(|level| topology.objects(**level).len() > 1);
    let Some(level) = several else {
        return free;
    };
    let place = |rank: usize| {
        let home = cores[rank * cores.len() / ranks].threads[0];
        let domain = topology.object_of(*level, home);
        match domain {
            Some(domain) => RankCores::Near(topology.objects(*level)[domain].threads.clone()),
            None => RankCores::Free,
        }
    };
    (0..ranks).map(place).collect()
}

/// Numbers in the form "0-3,8".
#[must_use]
pub fn ranges(numbers: &[usize]) -> String {
    let mut text = String::new();
    let mut rest = numbers;
    while let Some((&first, _)) = rest.split_first() {
        let run = (rest.iter().enumerate())
            .take_while(|(index, number)| **number == first + index)
            .count();
        if !text.is_empty() {
            text.push(',');
        }
        let _ = match run {
            1 => write!(text, "{first}"),
            _ => write!(text, "{first}-{}", first + run - 1),
        };
        rest = &rest[run..];
    }
    text
}

/// Reads "0-3,8".
///
/// # Errors
/// A sentence, if it is no such list.
pub fn parse_ranges(text: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("'{text}' is no list of cores; such as 0-3,8 was expected");
    let number = |text: &str| {
        text.trim()
            .parse::<usize>()
            .ok()
            .filter(|core| *core < 65_536)
    };
    let mut numbers = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
        if first > last {
            return Err(wrong());
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    match numbers.is_empty() {
        true => Err(wrong()),
        false => Ok(numbers),
    }
}

/// The topology for `weft info`: the number of usable objects of each kind.
///
/// # Errors
/// Why it is unknown.
pub fn topology_found() -> Result<String, String> {
    let topology = Topology::of_this_machine().map_err(|error| error.to_string())?;
    let allowed = cores::allowed().map_err(|error| error.to_string())?;
    let ours = topology.within(&allowed);
    let known = Level::ALL
        .iter()
        .filter(|level| !ours.objects(**level).is_empty());
    let counts = known.map(|level| {
        let count = ours.objects(*level).len();
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {}{plural}", level.name())
    });
    Ok(counts.collect::<Vec<_>>().join(", ") + &format!(" (by {LIBRARY})"))
}

#[cfg(test)]
mod tests;
