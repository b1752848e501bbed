//! Plan: what two roots compute from a record of each member before their groups are connected.

use super::super::agree::leader_bits;
use super::{INNER, NUMBERS};

/// Bytes of what a member tells its root.
pub(super) const RECORD: usize = 1024;

/// What a member tells its root: where it listens, or why not.
pub(super) struct Record {
    pub next: u32,
    pub said: std::result::Result<String, String>,
}

impl Record {
    pub fn to_bytes(&self) -> Vec<u8> {
        let (ok, text) = match &self.said {
            Ok(text) => (1_u8, text),
            Err(text) => (0, text),
        };
        let mut end = text.len().min(RECORD - 9);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = vec![ok];
        bytes.extend(self.next.to_le_bytes());
        bytes.extend((end as u32).to_le_bytes());
        bytes.extend(&text.as_bytes()[..end]);
        bytes.resize(RECORD, 0);
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let length = word(bytes, 5)? as usize;
        let text = std::str::from_utf8(bytes.get(9..9 + length)?)
            .ok()?
            .to_owned();
        Some(Self {
            next: word(bytes, 1)?,
            said: match bytes[0] {
                0 => Err(text),
                _ => Ok(text),
            },
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(part.try_into().ok()?))
}

/// What the roots have found out: who takes part, under which number and key.
pub(super) struct Plan {
    pub number: u32,
    pub key: [u8; 32],
    /// Addresses of the accepting group, then of the connecting group.
    pub addresses: Vec<String>,
    pub accepting: u32,
}

impl Plan {
    /// Made from the descriptions of the members of both sides. The error is the same at both roots, except for the
    /// process it names.
    pub fn of(sides: [&[u8]; 2], key: [u8; 32]) -> std::result::Result<Self, String> {
        let mut plan = Self {
            number: 0,
            key,
            addresses: Vec::new(),
            accepting: (sides[0].len() / RECORD) as u32,
        };
        for record in sides.iter().flat_map(|side| side.chunks(RECORD)) {
            let record = Record::from_bytes(record).ok_or("a message cannot be understood")?;
            plan.number = plan.number.max(record.next);
            plan.addresses.push(record.said?);
        }
        if plan.number >= NUMBERS {
            return Err(format!(
                "one of the processes has been connected to other jobs {NUMBERS} times; start it again"
            ));
        }
        if leader_bits(plan.addresses.len() as u32) >= INNER {
            return Err(format!(
                "{} processes are too many; connect smaller groups",
                plan.addresses.len()
            ));
        }
        Ok(plan)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.extend(self.accepting.to_le_bytes());
        bytes.extend(self.key);
        for address in &self.addresses {
            bytes.extend((address.len() as u32).to_le_bytes());
            bytes.extend(address.as_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (number, accepting) = (word(bytes, 0)?, word(bytes, 4)?);
        let key = bytes.get(8..40)?.try_into().ok()?;
        let mut addresses = Vec::new();
        let mut at = 40;
        while at < bytes.len() {
            let length = word(bytes, at)? as usize;
            let text = bytes.get(at + 4..at + 4 + length)?;
            addresses.push(String::from_utf8(text.to_vec()).ok()?);
            at += 4 + length;
        }
        Some(Self {
            number,
            key,
            addresses,
            accepting,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(next: u32, said: std::result::Result<&str, &str>) -> Vec<u8> {
        let said = said.map(str::to_owned).map_err(str::to_owned);
        Record { next, said }.to_bytes()
    }

    #[test]
    fn both_roots_come_to_the_same_plan() {
        let accepting = [record(4, Ok("a")), record(0, Ok("b"))].concat();
        let connecting = record(7, Ok("c"));
        let plan = Plan::of([&accepting, &connecting], [1; 32]).expect("all listen");
        let told = Plan::from_bytes(&plan.to_bytes()).expect("a plan");
        assert_eq!((told.number, told.accepting, told.key), (7, 2, [1; 32]));
        assert_eq!(told.addresses, ["a", "b", "c"]);
    }

    #[test]
    fn if_one_cannot_listen_all_are_told_its_reason() {
        let long = "é".repeat(RECORD);
        let sides = [record(0, Ok("a")), record(0, Err(&long))];
        let reason = Plan::of([&sides[0], &sides[1]], [0; 32])
            .err()
            .expect("not all listen");
        assert!(reason.len() > RECORD / 2 && long.starts_with(&reason));
        let many = record(NUMBERS, Ok("a"));
        assert!(Plan::of([&many, &sides[0]], [0; 32]).is_err());
    }
}
