//! A key-value server: requests by mailbox, values by portal.
//!
//! `cargo build --release -p weft --examples && weft run --on-death=restart -n 17 target/release/examples/key_value`
//!
//! Node 0 serves, the others put and get. When the server is killed (the launcher says `started
//! anew`), its clients get an error that names it, find the next one, and put again.

const VALUE: usize = 16_384;

fn serve(node: &weft::Node) -> weft::Result<()> {
    let (server, mut values) = (node.serve("key-value")?, vec![[0; VALUE]; 64]);
    let mut clients = node.nodes() - 1;
    while clients > 0 {
        match server.next() {
            Ok(ask) => match *ask.text() {
                [b'p', key] => _ = server.take(&ask, &mut values[key as usize % 64]),
                [b'g', key] => _ = server.give(&ask, &values[key as usize % 64]),
                _ => clients -= 1, // it has finished
            },
            Err(death) => {
                eprintln!("server: {death}");
                clients -= 1;
            }
        }
    }
    Ok(())
}

fn main() -> weft::Result<()> {
    let node = weft::init()?;
    assert!(
        node.nodes() > 1,
        "start it with a server and clients: weft run -n 2"
    );
    if node.me() == 0 {
        return serve(&node);
    }
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let (rounds, key, mut errors) = (rounds.unwrap_or(500), node.me() as u8, 0);
    let (server, mut copy) = (node.client("key-value")?, [0; VALUE]);
    for _ in 0..rounds {
        while let Err(death) = server
            .give(&[b'p', key], &[key; VALUE])
            .and_then(|_| server.take(&[b'g', key], &mut copy))
        {
            eprintln!("client {key}: {death}");
            errors += 1;
            assert!(errors < 100, "nobody serves any more");
        }
        assert_eq!(copy, [key; VALUE], "what was put");
    }
    server.tell(b"end").or_else(|_| server.tell(b"end"))?;
    println!("client {key}: {rounds} rounds, {errors} errors");
    Ok(())
}
