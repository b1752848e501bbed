//! Devices: measurements of the machine without any message-passing library: two threads of this process with
//! a cache line, a socket, a copy. No implementation can be much below these lines.

use anyhow::{Context, Result, bail};
use std::hint::{black_box, spin_loop};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Instant;
use weft_atomic::{AtomicBool, AtomicU64, Ordering};
use weft_sys::cores;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A cache line written by two pinned threads in turn; ns one way. The size is not used.
    CacheLine,
    /// A pair of Unix sockets, both threads sleeping in `read`; ns one way.
    UnixSocket,
    /// A TCP connection over loopback, both threads spinning on a non-blocking `read`; ns one way.
    Loopback,
    /// A copy within one thread; ns per copy.
    Memcpy,
    /// A part of the datapath alone; ns per item or decision. The size is its batch, or its clients.
    Datapath(weft_net_testbed::micro::Micro),
    /// Two pinned threads in turn: one rewrites a block, the other copies it into its own; ns one way.
    Handover,
}

impl Device {
    /// Name in the legend.
    pub fn name(self) -> &'static str {
        match self {
            Device::CacheLine => "device: cache line bounced",
            Device::UnixSocket => "device: Unix socket",
            Device::Loopback => "device: TCP loopback, spinning",
            Device::Memcpy => "device: memcpy, one thread",
            Device::Datapath(_) => "Weft",
            Device::Handover => "device: memcpy between two cores",
        }
    }

    /// Takes samples, each the mean nanoseconds of `iterations` operations.
    ///
    /// # Errors
    /// If the system refuses sockets, threads or processes for it, or a measuring thread panicked.
    pub fn sample(
        self,
        size: usize,
        warmup: u64,
        iterations: u64,
        samples: usize,
    ) -> Result<Vec<f64>> {
        match self {
            Device::CacheLine => alternate(warmup, iterations, samples, |_| (), |_| ()),
            Device::Handover => {
                let blocks = [(); 2].map(|()| Mutex::new(vec![0_u8; size]));
                let copies = [(); 2].map(|()| Mutex::new(vec![0_u8; size]));
                // Only one thread at a time takes each: the locks are always free.
                let open = |block: &Mutex<Vec<u8>>, work: &mut dyn FnMut(&mut Vec<u8>)| {
                    work(&mut block.lock().unwrap_or_else(PoisonError::into_inner));
                };
                alternate(
                    warmup,
                    iterations,
                    samples,
                    |me| open(&blocks[me], &mut |block| block.fill(black_box(me as u8))),
                    |me| {
                        open(&blocks[1 - me], &mut |block| {
                            open(&copies[me], &mut |copy| {
                                copy.copy_from_slice(black_box(block));
                                black_box(copy);
                            });
                        });
                    },
                )
            }
            Device::UnixSocket => {
                let (here, there) =
                    UnixStream::pair().context("cannot make a pair of Unix sockets")?;
                back_and_forth(here, there, size, warmup, iterations, samples)
            }
            Device::Loopback => {
                let (here, there) = loopback()?;
                back_and_forth(here, there, size, warmup, iterations, samples)
            }
            Device::Memcpy => Ok(memcpy(size, warmup, iterations, samples)),
            Device::Datapath(part) => Ok(part.sample(size, warmup, iterations, samples)?),
        }
    }
}

/// Times `samples` runs of `iterations` operations after `warmup` of them, in ns per `parts`.
fn time(
    warmup: u64,
    iterations: u64,
    samples: usize,
    parts: f64,
    mut operation: impl FnMut(u64),
) -> Vec<f64> {
    operation(warmup);
    (0..samples)
        .map(|_| {
            let start = Instant::now();
            operation(iterations);
            start.elapsed().as_nanos() as f64 / (iterations as f64 * parts)
        })
        .collect()
}

/// Both ends of a TCP connection over loopback that do not wait.
fn loopback() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
    let here =
        TcpStream::connect(listener.local_addr()?).context("cannot connect over loopback")?;
    let (there, _) = listener.accept()?;
    for stream in [&here, &there] {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        // The control of congestion that costs least: within a host nobody else uses the path.
        rustix::net::sockopt::set_tcp_congestion(stream, "reno")?;
    }
    Ok((here, there))
}

/// Alone on its pair of lines, so that no neighbour disturbs it (128: the prefetcher takes pairs).
#[repr(align(128))]
struct LinePair(AtomicU64);

/// Two cores that this process may use; an error on a machine with one.
fn two_cores() -> Result<(usize, usize)> {
    match cores::allowed().context("cannot read which cores may be used")?[..] {
        [first, second, ..] => Ok((first, second)),
        _ => bail!("a cache line needs two cores to bounce between, and this process may use one"),
    }
}

/// Two pinned threads alternate: `before` each turn, and `after` the other thread's turn.
fn alternate(
    warmup: u64,
    iterations: u64,
    samples: usize,
    before: impl Fn(usize) + Sync,
    after: impl Fn(usize) + Sync,
) -> Result<Vec<f64>> {
    let (first, second) = two_cores()?;
    let line = LinePair(AtomicU64::new(0));
    let pinned = Barrier::new(2);
    let rounds = warmup + iterations * samples as u64;
    let (before, after) = (&before, &after);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A refused affinity only makes the figure worse, never wrong.
            let _ = cores::pin(&[second]);
            pinned.wait();
            for turn in 0..rounds {
                wait_for(&line, 2 * turn + 1);
                after(1);
                before(1);
                line.0.store(2 * turn + 2, Ordering::Release); // SYNC line.answer
            }
        });
        let asking = scope.spawn(|| {
            let _ = cores::pin(&[first]);
            pinned.wait();
            let mut turn = 0;
            time(warmup, iterations, samples, 2.0, |count| {
                for _ in 0..count {
                    before(0);
                    line.0.store(2 * turn + 1, Ordering::Release); // SYNC line.question
                    wait_for(&line, 2 * turn + 2);
                    after(0);
                    turn += 1;
                }
            })
        });
        asking
            .join()
            .map_err(|_| anyhow::anyhow!("the thread that bounces a cache line panicked"))
    })
}

/// Spins until the line holds the value. Acquire of both SYNC line.question and line.answer.
fn wait_for(line: &LinePair, value: u64) {
    while line.0.load(Ordering::Acquire) != value {
        spin_loop();
    }
}

/// One message in each direction over a pair of streams.
fn back_and_forth<S: Read + Write + Send>(
    mut here: S,
    mut there: S,
    size: usize,
    warmup: u64,
    iterations: u64,
    samples: usize,
) -> Result<Vec<f64>> {
    let rounds = warmup + iterations * samples as u64;
    let given_up = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let mut bytes = vec![0; size];
            for _ in 0..rounds {
                fill(&mut there, &mut bytes, &given_up)?;
                drain(&mut there, &bytes, &given_up)?;
            }
            Ok::<_, std::io::Error>(())
        });
        let mut bytes = vec![7; size];
        let mut failed = None;
        let found = time(warmup, iterations, samples, 2.0, |count| {
            for _ in 0..count {
                if failed.is_none() {
                    let turn = drain(&mut here, &bytes, &given_up)
                        .and_then(|()| fill(&mut here, &mut bytes, &given_up));
                    failed = turn.err();
                }
            }
        });
        if failed.is_some() {
            given_up.store(true, Ordering::Relaxed);
        }
        drop(here); // wakes a peer that sleeps in read
        let answered = answering
            .join()
            .map_err(|_| anyhow::anyhow!("the answering thread panicked"))?;
        match failed.or(answered.err()) {
            Some(error) => Err(error).context("a socket of this machine failed"),
            None => Ok(found),
        }
    })
}

/// Reads a whole message, spinning if the stream does not block.
fn fill(stream: &mut impl Read, bytes: &mut [u8], given_up: &AtomicBool) -> std::io::Result<()> {
    let mut have = 0;
    whole(bytes.len(), given_up, || {
        have += match stream.read(&mut bytes[have..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            some => some,
        };
        Ok(have)
    })
}

/// Writes a whole message, spinning if the stream does not block.
fn drain(stream: &mut impl Write, bytes: &[u8], given_up: &AtomicBool) -> std::io::Result<()> {
    let mut have = 0;
    whole(bytes.len(), given_up, || {
        have += stream.write(&bytes[have..])?;
        Ok(have)
    })
}

/// Repeats a step until it has moved the whole length; a peer that gave up ends it too.
fn whole(
    length: usize,
    given_up: &AtomicBool,
    mut step: impl FnMut() -> std::io::Result<usize>,
) -> std::io::Result<()> {
    loop {
        match step() {
            Ok(have) if have >= length => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if given_up.load(Ordering::Relaxed) {
                    return Err(ErrorKind::BrokenPipe.into());
                }
                spin_loop();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn memcpy(size: usize, warmup: u64, iterations: u64, samples: usize) -> Vec<f64> {
    let from = vec![7_u8; size];
    let mut to = vec![0_u8; size];
    time(warmup, iterations, samples, 1.0, |count| {
        for _ in 0..count {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_answers_with_as_many_samples_as_asked() {
        for device in [Device::UnixSocket, Device::Loopback, Device::Memcpy] {
            let found = device.sample(3000, 2, 5, 4).expect("device");
            assert_eq!(found.len(), 4, "{device:?}");
            assert!(
                found.iter().all(|sample| *sample > 0.0),
                "{device:?}: {found:?}"
            );
        }
        if two_cores().is_ok() {
            for device in [Device::CacheLine, Device::Handover] {
                let found = device.sample(4096, 2, 50, 3).expect("two cores");
                assert_eq!(found.len(), 3, "{device:?}");
            }
        }
    }
}
