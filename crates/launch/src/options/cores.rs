//! The values of options for the cores and hosts of ranks, in the spellings of Open MPI and of MPICH.

use crate::binding::{BindTo, BindingRequest, Domain, parse_ranges};

/// Options of the line about the cores and hosts of ranks so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CoreOptions {
    /// On which cores of their hosts they run.
    pub binding: BindingRequest,
    /// Number of ranks for each host.
    pub per_host: Option<u32>,
    /// They are dealt to hosts in turn.
    pub cyclic: bool,
    /// Hardware threads count as cores.
    hardware_threads: bool,
}

/// Kinds of objects, for messages.
const KINDS: &str = "hwthread, core, l1cache, l2cache, l3cache, numa, package (or socket)";

/// A number that is at least 1.
fn count(option: &str, text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        format!("{option} was given '{text}' where a number was expected, at least 1")
    })
}

impl CoreOptions {
    /// `--bind-to WHAT[:MODIFIER…]`.
    ///
    /// # Errors
    /// A sentence, if it is none.
    pub fn bind(&mut self, option: &str, text: &str) -> Result<(), String> {
        let lower = text.to_ascii_lowercase();
        let (what, modifiers) = lower.split_once(':').unwrap_or((&lower, ""));
        if let "user" | "map" = what {
            let lists = modifiers.split(['+', ':']).map(parse_ranges);
            let lists: Vec<Vec<usize>> = match modifiers.contains(['+', ':']) {
                true => lists.collect::<Result<_, _>>()?,
                // As MPICH writes them: one core for each rank.
                false => parse_each(modifiers)?,
            };
            self.binding.bind = Some(BindTo::Lists(lists));
            return Ok(());
        }
        let mut each = 1;
        for modifier in modifiers.split(':').filter(|word| !word.is_empty()) {
            match modifier {
                "overload-allowed" | "overload" | "no-overload" | "if-supported" | "ordered"
                | "report" => {
                    self.binding.report |= modifier == "report";
                }
                number if number.starts_with(|first: char| first.is_ascii_digit()) => {
                    each = count(option, number)?;
                }
                _ => {
                    return Err(format!(
                        "{option} was given '{text}'; behind the colon a number, overload-allowed, if-supported and report are \
                         possible"
                    ));
                }
            }
        }
        self.binding.bind = Some(match what {
            "none" | "no" | "board" => BindTo::Nothing,
            "rr" => BindTo::Domain(Domain::HardwareThread, each),
            "cpu-list" | "cpulist" => BindTo::Domain(Domain::HardwareThread, each),
            what => match Domain::parse(what) {
                Some(domain) => BindTo::Domain(domain, each),
                None => {
                    return Err(format!(
                        "{option} was given '{text}'; none, user:LISTS and {KINDS} are possible"
                    ));
                }
            },
        });
        Ok(())
    }

    /// `--map-by WHAT[:MODIFIER…]`.
    ///
    /// # Errors
    /// A sentence, if it is none.
    pub fn map(&mut self, option: &str, text: &str) -> Result<(), String> {
        let lower = text.to_ascii_lowercase();
        let mut words = lower.split(':');
        let what = words.next().unwrap_or("");
        match what {
            "" => {}
            "slot" | "seq" => {
                if what == "seq" {
                    return Err(format!(
                        "{option} seq is not possible; --hosts with numbers (A:1,B:2) says how many ranks each host gets"
                    ));
                }
            }
            "node" => self.cyclic = true,
            "ppr" => self.map_per(option, text, words.next(), words.next())?,
            _ => match (Domain::parse(what), what.strip_prefix("pe-list=")) {
                (Some(domain), _) => self.binding.map = Some(domain),
                (None, Some(list)) => {
                    self.binding.threads = parse_ranges(list)?;
                    // One core for each rank, in their order.
                    self.binding.map = Some(Domain::HardwareThread);
                }
                (None, None) => {
                    return Err(format!(
                        "{option} was given '{text}'; slot, node, ppr:N:WHAT, pe-list=LIST and {KINDS} are possible"
                    ));
                }
            },
        }
        for modifier in words.filter(|word| !word.is_empty()) {
            match modifier {
                "span" | "oversubscribe" | "nooversubscribe" | "overload" | "overload-allowed"
                | "nooverload" | "corecpus" | "inherit" | "noinherit" | "nolocal" | "ordered" => {}
                "hwtcpus" => self.hardware_threads = true,
                "display" => self.binding.report = true,
                _ => match modifier.split_once('=') {
                    Some(("pe", number)) => self.binding.cores_each = Some(count(option, number)?),
                    _ => {
                        return Err(format!(
                            "{option} was given '{text}'; behind the last colon PE=N, HWTCPUS, SPAN and OVERSUBSCRIBE are possible"
                        ));
                    }
                },
            }
        }
        Ok(())
    }

    /// `ppr:N:WHAT`.
    fn map_per(
        &mut self,
        option: &str,
        text: &str,
        number: Option<&str>,
        what: Option<&str>,
    ) -> Result<(), String> {
        let number = count(option, number.unwrap_or(""))?;
        match (what, what.and_then(Domain::parse)) {
            (Some("node"), _) => self.per_host = Some(number),
            (_, Some(domain)) => self.per(number, domain),
            _ => {
                return Err(format!(
                    "{option} was given '{text}'; ppr:N:node and ppr:N: with one of {KINDS} are possible"
                ));
            }
        }
        Ok(())
    }

    /// This many ranks on each object of a kind.
    pub fn per(&mut self, number: u32, domain: Domain) {
        self.binding.per_object = Some(number);
        self.binding.map = Some(domain);
    }

    /// `--rank-by WHAT`: which of the ranks that were mapped has which number.
    ///
    /// # Errors
    /// A sentence, if it is none.
    pub fn rank(&mut self, option: &str, text: &str) -> Result<(), String> {
        let lower = text.to_ascii_lowercase();
        match lower.split(':').next().unwrap_or("") {
            "slot" | "fill" => {
                self.cyclic = false;
                self.binding.fill = true;
            }
            "node" => self.cyclic = true,
            "span" => self.binding.fill = false,
            what if Domain::parse(what).is_some() => self.binding.fill = false,
            _ => {
                return Err(format!(
                    "{option} was given '{text}'; slot, fill, node, span and {KINDS} are possible"
                ));
            }
        }
        Ok(())
    }

    /// Hardware threads count as cores.
    pub fn use_hardware_threads(&mut self) {
        self.hardware_threads = true;
    }

    /// The resulting request.
    pub fn finish(mut self) -> BindingRequest {
        if self.hardware_threads {
            match (&self.binding.bind, self.binding.cores_each) {
                (Some(BindTo::Domain(Domain::Core, each)), _) => {
                    self.binding.bind = Some(BindTo::Domain(Domain::HardwareThread, *each));
                }
                (None, Some(_)) => {
                    self.binding.bind = Some(BindTo::Domain(Domain::HardwareThread, 1));
                }
                _ => {}
            }
        }
        self.binding
    }
}

/// "0,3": a list for each rank.
fn parse_each(text: &str) -> Result<Vec<Vec<usize>>, String> {
    text.split(',').map(parse_ranges).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(options: &[(&str, &str)]) -> Result<CoreOptions, String> {
        let mut said = CoreOptions::default();
        for (option, value) in options {
            match *option {
                "bind" => said.bind("--bind-to", value)?,
                "map" => said.map("--map-by", value)?,
                _ => said.rank("--rank-by", value)?,
            }
        }
        Ok(said)
    }

    #[test]
    fn what_ranks_are_bound_to_is_read() {
        let bind = |text| said(&[("bind", text)]).expect(text).finish().bind;
        for (text, domain, each) in [
            ("core", Domain::Core, 1),
            ("core:overload-allowed", Domain::Core, 1),
            ("core:2", Domain::Core, 2),
            ("Socket", Domain::Package, 1),
            ("package:if-supported", Domain::Package, 1),
            ("numa", Domain::MemoryNode, 1),
            ("l3cache", Domain::L3Cache, 1),
            ("hwthread", Domain::HardwareThread, 1),
            ("rr", Domain::HardwareThread, 1),
        ] {
            assert_eq!(bind(text), Some(BindTo::Domain(domain, each)), "{text}");
        }
        assert_eq!(bind("none"), Some(BindTo::Nothing));
        assert_eq!(
            bind("user:0,3"),
            Some(BindTo::Lists(vec![vec![0], vec![3]]))
        );
        let two = BindTo::Lists(vec![vec![0, 1], vec![4, 5]]);
        assert_eq!(bind("user:0-1+4-5"), Some(two));
        for wrong in ["cores", "core:x", "user:", ""] {
            let error = said(&[("bind", wrong)]).expect_err(wrong);
            assert!(
                error.contains("possible") || error.contains("expected"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_ranks_are_dealt_to_is_read() {
        let map = |text| said(&[("map", text)]).expect(text);
        assert_eq!(map("slot"), CoreOptions::default());
        assert!(map("node").cyclic);
        assert_eq!(map("ppr:2:node").per_host, Some(2));
        let found = map("ppr:2:socket:PE=4").binding;
        assert_eq!(found.map, Some(Domain::Package));
        assert_eq!((found.per_object, found.cores_each), (Some(2), Some(4)));
        assert_eq!(map("numa:span").binding.map, Some(Domain::MemoryNode));
        assert_eq!(map(":pe=2").binding.cores_each, Some(2));
        let wide = map("slot:PE=2:HWTCPUS").finish();
        assert_eq!(wide.bind, Some(BindTo::Domain(Domain::HardwareThread, 1)));
        assert_eq!(map("pe-list=2,0:ordered").binding.threads, [0, 2]);
        for wrong in [
            "ppr:2",
            "ppr:x:node",
            "ppr:2:disk",
            "cores",
            "core:pe=0",
            "core:fast",
            "seq",
        ] {
            let error = said(&[("map", wrong)]).expect_err(wrong);
            assert!(
                error.contains("possible") || error.contains("expected"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_order_of_ranks_is_read() {
        let found = said(&[("map", "node"), ("rank", "slot")]).expect("known");
        assert!(!found.cyclic && found.binding.fill);
        assert!(said(&[("rank", "node")]).expect("known").cyclic);
        assert!(said(&[("rank", "odd")]).is_err());
    }
}
