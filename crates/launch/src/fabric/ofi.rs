//! Joining a job over libfabric: by request, or because all ranks have hardware for it.

use weft_fabric_ofi::{Card, Config, Directory, Extent, Ofi, Opening};
use weft_fabric_shm::Addresses;
use weft_fabric_tcp::Tcp;

use super::recorded::RecordedOfi;
use super::{Members, NetworkChoice, Wishes, text_of};
use crate::bootstrap::Launcher;

/// Name of what ranks tell each other.
const CARD: &str = "ofi";

/// Folders of the kernel in which hardware stands that libfabric has providers for.
const DEVICES: [&str; 3] = ["/sys/class/infiniband", "/sys/class/cxi", "/sys/class/hfi1"];

/// Encryption was asked for together with libfabric.
const NOT_ENCRYPTED: &str = "--encrypt was asked for, and libfabric's connections are not encrypted: take --fabric tcp, or \
     leave --encrypt on a network whose members are trusted";

fn config(launcher: &dyn Launcher, members: &Members, provider: Option<&str>) -> Config {
    Config {
        me: members.me,
        peers: members.count,
        provider: provider.map(str::to_owned),
        extent: match launcher.job_hosts().count() {
            1 => Extent::OneHost,
            _ => Extent::SeveralHosts,
        },
        neighbours: launcher.local_size(),
    }
}

fn is_reached_by_memory(
    launcher: &dyn Launcher,
    members: &Members,
    peer: u32,
    within: bool,
) -> bool {
    within && members.host_of(peer, launcher) == members.host
}

/// What has become of it.
pub(super) enum Joined {
    /// All join by libfabric; TCP tells who dies.
    Ofi(Box<Ofi>),
    /// Not all have the hardware.
    Tcp(Box<Tcp>),
}

/// An endpoint of libfabric, offered to the others.
pub(super) struct Offered {
    opening: Opening,
    /// The user has asked for it: it is used, or that is an error. Else it is used if all have one of the same provider.
    is_wish: bool,
}

impl Offered {
    /// Opens an endpoint, if one is wished for or there is hardware for it, and tells the others. To be called before they meet.
    pub(super) fn by(
        launcher: &dyn Launcher,
        wishes: &Wishes,
        members: &Members,
    ) -> Result<Option<Self>, String> {
        let offered = match &wishes.network {
            NetworkChoice::Tcp => None,
            NetworkChoice::Ofi(_) if wishes.seal => return Err(NOT_ENCRYPTED.to_owned()),
            NetworkChoice::Ofi(provider) => {
                let opening = Opening::new(config(launcher, members, provider.as_deref()));
                Some((opening.map_err(|error| error.to_string())?, true))
            }
            // The ranks that the job started with have decided.
            NetworkChoice::Auto if launcher.later().is_some() => {
                match taken_by_the_first(launcher, members)? {
                    None => None,
                    Some(_) if wishes.seal => return Err(NOT_ENCRYPTED.to_owned()),
                    Some(name) => {
                        let opening = Opening::new(config(launcher, members, Some(&name)));
                        Some((opening.map_err(|error| error.to_string())?, true))
                    }
                }
            }
            NetworkChoice::Auto => {
                // Encrypted data go by TCP.
                let provider = (!wishes.seal && has_devices())
                    .then(weft_fabric_ofi::found)
                    .and_then(Result::ok)
                    .and_then(|found| {
                        weft_fabric_ofi::hardware(&found).map(|one| one.provider.clone())
                    });
                // A provider that cannot be opened does not exist for us.
                provider
                    .and_then(|name| Opening::new(config(launcher, members, Some(&name))).ok())
                    .map(|opening| (opening, false))
            }
        };
        let Some((opening, is_wish)) = offered else {
            return Ok(None);
        };
        // A process that is started later says it together with its address of TCP.
        if launcher.later().is_none() {
            let told = launcher.put(CARD, opening.card().to_string().as_bytes());
            told.map_err(|error| error.to_string())?;
        }
        Ok(Some(Self { opening, is_wish }))
    }

    /// Where this process is.
    pub(super) fn card(&self) -> &Card {
        self.opening.card()
    }

    /// Joins, if all have told of an endpoint that fits. To be called after they have met. `within`: ranks of one host reach
    /// each other by its memory.
    pub(super) fn join(
        self,
        launcher: &dyn Launcher,
        members: &Members,
        within: bool,
        (tcp, addresses): (Tcp, Addresses),
    ) -> Result<Joined, String> {
        let mut cards = if self.is_wish {
            let mut cards = Vec::with_capacity(members.count as usize);
            for peer in 0..members.first {
                let text = text_of(launcher, peer, CARD)?;
                let card = text.parse::<Card>();
                cards.push(Some(card.map_err(|error| format!("rank {peer}: {error}"))?));
            }
            cards
        } else {
            offers_of_the_first(launcher, members)?
        };
        if !self.is_wish && !all_have(&cards) {
            return Ok(Joined::Tcp(Box::new(tcp)));
        }
        for (peer, card) in (0..).zip(&mut cards) {
            if peer != members.me && is_reached_by_memory(launcher, members, peer, within) {
                *card = None;
            }
        }
        cards.resize(members.count as usize, None);
        let key = tcp.key().clone();
        let joined = self.opening.join(key, cards);
        let directory: Option<Box<dyn Directory>> = match members.room {
            0 => None,
            _ => Some(Box::new(RecordedOfi(addresses))),
        };
        let joined = joined.and_then(|ofi| ofi.watched_by(tcp, directory));
        joined
            .map(|ofi| Joined::Ofi(Box::new(ofi)))
            .map_err(|error| error.to_string())
    }
}

/// What the ranks that the job started with have told, of endpoints that they offer.
fn offers_of_the_first(
    launcher: &dyn Launcher,
    members: &Members,
) -> Result<Vec<Option<Card>>, String> {
    let offer = |peer| {
        let told = launcher
            .get(peer, CARD)
            .map_err(|error| error.to_string())?;
        let text = told.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text.and_then(|text| text.parse::<Card>().ok()))
    };
    (0..members.first).map(offer).collect()
}

/// The provider that the ranks that the job started with have taken, if they go by libfabric.
fn taken_by_the_first(
    launcher: &dyn Launcher,
    members: &Members,
) -> Result<Option<String>, String> {
    let cards = offers_of_the_first(launcher, members)?;
    let first = cards.first().cloned().flatten();
    Ok(first.filter(|_| all_have(&cards)).map(|card| card.provider))
}

/// Whether all ranks have told of an endpoint of one provider. All find the same answer.
fn all_have(cards: &[Option<Card>]) -> bool {
    let first = cards.first().and_then(Option::as_ref);
    first.is_some_and(|first| {
        let same = |card: &Option<Card>| {
            let provider = card.as_ref().map(|card| &card.provider);
            provider == Some(&first.provider)
        };
        cards.iter().all(same)
    })
}

/// Whether the kernel knows of hardware for which asking libfabric is worth the while.
fn has_devices() -> bool {
    DEVICES
        .iter()
        .any(|folder| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_is_taken_if_all_have_it() {
        let card = |provider: &str| {
            Some(Card {
                provider: provider.to_owned(),
                address: vec![1],
                number: 1,
            })
        };
        assert!(all_have(&[card("cxi"), card("cxi")]));
        assert!(!all_have(&[card("cxi"), card("verbs;ofi_rxm")]));
        assert!(!all_have(&[card("cxi"), None]));
        assert!(!all_have(&[None, card("cxi")]));
        assert!(!all_have(&[]));
    }
}
