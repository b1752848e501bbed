//! Speed of sealed records on one core: the time of the cipher alone, in cached memory.
//!
//! ```text
//! cargo run --release -p weft-secure --example record_speed
//! ```
//!
//! 256 KiB are sealed from their place into records of each length, and opened from there into a third place. Prints the
//! fastest and the median of many rounds, in GB/s, and the time of 1 MiB at the median.

use std::time::Instant;

use weft_secure::{Channel, Handshake, Key, LENGTH, RECORD, Step, TAG};

const BYTES: usize = 256 << 10;
const ROUNDS: usize = 400;

fn done(handshake: &mut Handshake, bytes: &[u8]) -> Option<Channel> {
    match handshake.feed(bytes) {
        Ok((_, Step::Done(channel))) => Some(*channel),
        Ok(_) => None,
        Err(refusal) => panic!("two ends with one key: {refusal:?}"),
    }
}

fn pair() -> Option<(Channel, Channel)> {
    let key = Key::random().ok()?;
    let mut left = Handshake::initiator(&key, "speed", b"");
    let mut right = Handshake::responder(&key, "speed", b"");
    done(&mut right, &left.take_outgoing());
    let here = done(&mut left, &right.take_outgoing())?;
    let there = done(&mut right, &left.take_outgoing())?;
    Some((here, there))
}

fn report(what: &str, length: usize, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[times.len() / 2]);
    let rate = |time: f64| BYTES as f64 / time / 1e9;
    println!(
        "{what:<5} {length:>6} B  best {:5.1} median {:5.1} GB/s  {:6.1} µs for 1 MiB",
        rate(best),
        rate(median),
        median * 4e6
    );
}

fn main() {
    let (mut here, mut there) = pair().expect("random bytes");
    let plain = vec![7; BYTES];
    let mut opened = vec![0; BYTES];
    for length in [4 << 10, 16 << 10, 32 << 10, 65_472, RECORD] {
        let sealed = LENGTH + length + TAG;
        let mut records = vec![0; BYTES.div_ceil(length) * sealed];
        let (mut seal, mut open) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for (bytes, record) in plain.chunks(length).zip(records.chunks_mut(sealed)) {
                here.sealer
                    .seal_from(bytes, &mut record[..LENGTH + bytes.len() + TAG]);
            }
            seal.push(start.elapsed().as_secs_f64());
            let start = Instant::now();
            for (bytes, record) in opened.chunks_mut(length).zip(records.chunks_mut(sealed)) {
                let end = LENGTH + bytes.len() + TAG;
                let record = &mut record[LENGTH..end];
                there.opener.open_into(record, bytes).expect("not changed");
            }
            open.push(start.elapsed().as_secs_f64());
        }
        assert!(opened == plain, "what was sealed is opened");
        report("seal", length, seal);
        report("open", length, open);
    }
}
