//! Name of a port: which job, which process of it, and which of its ports.

/// The parts of a port's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortName {
    /// The process that accepts there, by its number in the job.
    pub owner: u32,
    /// Its number.
    pub number: u32,
}

impl PortName {
    /// The name in a job.
    pub(super) fn write(self, job: &str) -> String {
        format!("weft:{job}:{}:{}", self.owner, self.number)
    }

    /// Reads a name, of any job: that, and the rest.
    #[must_use]
    pub fn parse(name: &str) -> Option<(&str, Self)> {
        let (job, rest) = name.strip_prefix("weft:")?.split_once(':')?;
        let (owner, number) = rest.split_once(':')?;
        // What follows is for other jobs: see [`OtherJobs`](crate::other_jobs::OtherJobs).
        let number = number.split_once(':').map_or(number, |(number, _)| number);
        let (owner, number) = (owner.parse().ok()?, number.parse().ok()?);
        Some((job, Self { owner, number }))
    }

    /// A name for texts that people read: without the secret that it may carry.
    #[must_use]
    pub fn shown(name: &str) -> &str {
        match name.starts_with("weft:") {
            true => name.split_once('/').map_or(name, |(shown, _)| shown),
            false => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let port = PortName {
            owner: 3,
            number: 7,
        };
        let name = port.write("a0");
        assert_eq!(PortName::parse(&name), Some(("a0", port)));
        assert_eq!(
            PortName::parse(&format!("{name}:more/secret")),
            Some(("a0", port))
        );
        for other in ["", "weft", "weft:a:b:c", "tcp:1:2:3"] {
            assert_eq!(PortName::parse(other), None, "{other}");
        }
        assert_eq!(PortName::shown("weft:a:1:2:b/secret"), "weft:a:1:2:b");
    }
}
