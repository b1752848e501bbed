//! The client's side of iperf3's protocol over a guest's sockets: one control connection, on which the
//! server says what comes next, and one stream of data.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use weft_net::socket::TcpStream;

use crate::interoperability::{Ended, Ground, connect};

/// The direction of the data, and the protocol.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum What {
    Send,
    Receive,
    Udp,
}

const PORT: u16 = 5201;
const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const PARAMETERS: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const EXCHANGE_RESULTS: u8 = 13;
const DISPLAY_RESULTS: u8 = 14;
const DONE: u8 = 16;

/// Bytes of data over TCP.
const BYTES: u64 = 1_000_000;
/// Datagrams, and bytes of each.
const DATAGRAMS: u32 = 200;
const LENGTH: usize = 1400;

fn expect(control: &mut TcpStream, state: u8) {
    let mut found = [0];
    control.read_exact(&mut found).expect("the server speaks");
    assert_eq!(found[0], state, "iperf3 is in another state");
}

fn tell(control: &mut TcpStream, value: &Value) {
    let text = value.to_string();
    let length = (text.len() as u32).to_be_bytes();
    control.write_all(&length).expect("written");
    control.write_all(text.as_bytes()).expect("written");
}

fn told(control: &mut TcpStream) -> Value {
    let mut length = [0; 4];
    control.read_exact(&mut length).expect("a length");
    let mut text = vec![0; u32::from_be_bytes(length) as usize];
    control.read_exact(&mut text).expect("as long as said");
    serde_json::from_slice(&text).expect("it is JSON")
}

/// One test with a server of its own; its count must equal what was sent.
pub fn run(ground: &Ground, what: What) {
    let server = ground
        .far("iperf3")
        .args(["-s", "-1", "-B", "10.77.0.1"])
        .stdout(Stdio::null())
        .spawn();
    let _server = Ended(server.expect("it starts"));
    let network = ground.guest();
    let mut control = connect(&network, PORT);
    let cookie = b"weftweftweftweftweftweftweftweftweft\0";
    control.write_all(cookie).expect("written");
    expect(&mut control, PARAMETERS);
    let mut parameters = json!({
        "omit": 0, "time": 0, "parallel": 1, "len": LENGTH, "pacing_timer": 1000,
        "client_version": "3.12",
    });
    match what {
        What::Send | What::Receive => {
            parameters["tcp"] = true.into();
            parameters["num"] = BYTES.into();
        }
        What::Udp => {
            parameters["udp"] = true.into();
            parameters["num"] = (u64::from(DATAGRAMS) * LENGTH as u64).into();
        }
    }
    if what == What::Receive {
        parameters["reverse"] = true.into();
    }
    tell(&mut control, &parameters);
    expect(&mut control, CREATE_STREAMS);
    let (bytes, packets) = match what {
        What::Send | What::Receive => {
            let mut data = connect(&network, PORT);
            data.write_all(cookie).expect("written");
            expect(&mut control, TEST_START);
            expect(&mut control, TEST_RUNNING);
            let mut part = vec![7; 50_000];
            let mut bytes = 0;
            while bytes < BYTES {
                bytes += match what {
                    What::Receive => data.read(&mut part).expect("read"),
                    _ => data.write(&part).expect("written"),
                } as u64;
            }
            data.flush().expect("all is there");
            end(&mut control);
            (bytes, 0)
        }
        What::Udp => {
            let socket = network.udp(0).expect("bound");
            let to = format!("10.77.0.1:{PORT}").parse().expect("an address");
            let limit = Duration::from_secs(10);
            let mut answer = [0; 64];
            socket
                .send_to(&0x3637_3839u32.to_le_bytes(), to)
                .expect("sent");
            socket.recv_within(&mut answer, limit).expect("an answer");
            expect(&mut control, TEST_START);
            expect(&mut control, TEST_RUNNING);
            let mut datagram = [0; LENGTH];
            for number in 1..=DATAGRAMS {
                // Seconds, microseconds, number.
                datagram[8..12].copy_from_slice(&number.to_be_bytes());
                socket.send_to(&datagram, to).expect("sent");
                // At a rate with which every receiver can keep up.
                std::thread::sleep(Duration::from_micros(200));
            }
            end(&mut control);
            (u64::from(DATAGRAMS) * LENGTH as u64, DATAGRAMS)
        }
    };
    expect(&mut control, EXCHANGE_RESULTS);
    tell(
        &mut control,
        &json!({
            "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0,
            "sender_has_retransmits": 0,
            "streams": [{
                "id": 1, "bytes": bytes, "retransmits": 0, "jitter": 0, "errors": 0,
                "packets": packets, "start_time": 0, "end_time": 1,
            }],
        }),
    );
    let results = told(&mut control);
    let counted = results["streams"][0]["bytes"].as_u64().expect("a number");
    match what {
        // It may have sent more than was waited for.
        What::Receive => assert!(counted >= BYTES, "{results}"),
        What::Send => assert_eq!(counted, bytes, "{results}"),
        What::Udp => assert!(counted <= bytes && counted * 10 > bytes * 9, "{results}"),
    }
    expect(&mut control, DISPLAY_RESULTS);
    control.write_all(&[DONE]).expect("written");
    let _ = control.finish();
}

/// The server stops reading when it is told that the test has ended: it may not have read all data that it
/// has acknowledged.
fn end(control: &mut TcpStream) {
    std::thread::sleep(Duration::from_millis(200));
    control.write_all(&[TEST_END]).expect("written");
}
