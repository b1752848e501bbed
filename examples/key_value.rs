//! A key-value server: requests by mailbox, values by portal.
//!
//! `cargo build --release -p weft --examples && weft run --on-death=restart -n 17 target/release/examples/key_value`
//!
//! Node 0 serves, the others put and get. When the server is killed (the launcher says `started
//! anew`), whoever waits for it gets an error that names it, finds it again by its name, and puts again.

use weft::{Inportal, Node, Result};

const KEYS: usize = 64;
const VALUE: usize = 16_384;
/// What a request asks for, in its first byte; the second is the key, the third the source port of
/// the portal that the client writes by.
const PUT: u8 = 0;
const GET: u8 = 1;
const END: u8 = 2;

fn serve(node: &Node) -> Result<()> {
    let (requests, portal) = (node.inbox(0)?, node.inportal(0)?);
    let mut values = vec![vec![0; VALUE]; KEYS];
    let mut clients = node.nodes() - 1;
    node.name_link("key-value", 0)?;
    while clients > 0 {
        let mut ask = [0; 3];
        match requests.read(&mut ask) {
            Ok(mail) => match ask {
                [PUT, key, source] => {
                    _ = portal.read(mail.node, source, &mut values[key as usize % KEYS])
                }
                [GET, key, _] => {
                    _ = node
                        .outportal(mail.node, 0)?
                        .write(&values[key as usize % KEYS])
                }
                _ => clients -= 1,
            },
            Err(error) => {
                eprintln!("server: {error}");
                clients -= 1;
            }
        }
    }
    Ok(())
}

fn put_and_get(node: &Node, server: u32, port: u8, copies: &Inportal, key: u8) -> Result<()> {
    let (requests, out) = (node.outbox(server, port)?, node.outportal(server, 0)?);
    requests.write(&[PUT, key, out.source()?])?;
    out.write(&[key; VALUE])?;
    requests.write(&[GET, key, 0])?;
    let mut copy = [0; VALUE];
    copies.read(server, 0, &mut copy)?;
    assert_eq!(copy, [key; VALUE], "what was put");
    Ok(())
}

fn main() -> Result<()> {
    let node = weft::init()?;
    if node.me() == 0 {
        return serve(&node);
    }
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let (copies, mut done, mut errors) = (node.inportal(0)?, 0, 0);
    while done < rounds.unwrap_or(500) {
        let (server, port) = node.name_find("key-value")?;
        match put_and_get(&node, server, port, &copies, node.me() as u8 % KEYS as u8) {
            Ok(()) => done += 1,
            Err(error) => {
                eprintln!("client {}: {error}", node.me());
                errors += 1;
            }
        }
    }
    let (server, port) = node.name_find("key-value")?;
    node.outbox(server, port)?.write(&[END, 0, 0])?;
    println!("client {}: {done} rounds, {errors} errors", node.me());
    Ok(())
}
