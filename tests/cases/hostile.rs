//! The fuzz targets' drivers with a few hundred random inputs each: input from a lying peer, a user or a
//! program gets an answer, and never causes a panic. `fuzz/README.md` says how to run them for longer.

#![allow(missing_docs)]

#[path = "../../fuzz/drivers/mod.rs"]
mod drivers;

use proptest::collection::vec;
use proptest::prelude::*;

/// A few words of a command line, options among them.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "-n",
        "-np",
        "2",
        ":",
        "-x",
        "-env",
        "A=1",
        "-wdir",
        "/tmp",
        "--timeout",
        "10",
        "--",
        "--tag-output",
        "-genv",
        "--bind-to",
        "core",
        "program",
        "-hosts",
        "-h",
        "--version",
        "-ppn",
        "--listen",
        "a:1,b:2",
        "--launch-command",
    ]);
    let word = prop_oneof![
        9 => known.prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..6),
    ];
    vec(word, 0..9).prop_map(|words| words.join(&b'\n'))
}

/// Parts of the host lists of schedulers, and arbitrary bytes.
fn allocation() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "n",
        "[",
        "]",
        "1-3",
        "08-11",
        ",",
        "(x3)",
        "2",
        " ",
        "\n",
        "here",
        "a.b",
        ":4",
        " slots=2",
        "-",
        "all.q@a",
        "{\"execution\": {\"R_lite\": [{\"rank\": \"0-1\", \"children\": {\"core\": \"0-3\"}}], \"nodelist\": [\"",
        "\"]}}",
    ]);
    let part = prop_oneof![
        9 => known.prop_map(|part| part.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..6),
    ];
    vec(part, 0..12).prop_map(|parts| parts.concat())
}

/// Parts of lines that launchers send, and arbitrary bytes.
fn said() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "cmd=response_to_init rc=0 pmi_version=1\n",
        "cmd=maxes rc=0 keylen_max=64 vallen_max=1024\n",
        "cmd=barrier_out\n",
        "cmd=",
        " rc=1",
        "host:4",
        ",",
        "[a:b]:2",
    ]);
    let part = prop_oneof![
        4 => known.prop_map(|part| part.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..9),
    ];
    vec(part, 0..6).prop_map(|parts| parts.concat())
}

/// Parts of descriptions, questions and grants, and arbitrary bytes.
fn datapath() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "[[client]]\n",
        "name = \"a\"\n",
        "name = \"b\"\n",
        "work = { kind = \"echo\" }\n",
        "wire = { kind = \"veth\", driver = \"xdp\" }\n",
        "policy = { order = \"weighted\" }\n",
        "weight = 0\n",
        "queue = 16\n",
        "rx-queue = 17\n",
        "window = 4294967295\n",
        "limit = 1\n",
    ]);
    let part = prop_oneof![
        8 => known.prop_map(|part| part.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..9),
    ];
    let text = vec(part, 0..8).prop_map(|parts| [&[0], &parts.concat()[..]].concat());
    let order = prop::sample::select(vec!["signalled", "round-robin", "weighted", "priority"]);
    let policy = (order, any::<[u32; 4]>(), any::<[u64; 2]>()).prop_map(|(order, small, limits)| {
        let [a, b, c, bound] = small;
        let (d, e) = (limits[0] >> (a % 64), limits[1]);
        let text = format!(
            "\u{1}{{\"Policy\":{{\"order\":\"{order}\",\"weights\":[{a},{b}],\"levels\":[{c},0],\
             \"limits\":[{d},{e}],\"bound\":{bound}}}}}"
        );
        text.into_bytes()
    });
    let end = |capacity: u32, generation: u32| {
        format!("{{\"capacity\":{capacity},\"generation\":{generation},\"limit\":{capacity}}}")
    };
    let size = prop_oneof![Just(16_u32), any::<u32>()];
    let grant = (size.clone(), size, any::<u32>(), any::<usize>()).prop_map(
        move |(rx, tx, generation, index)| {
            let (rx, tx) = (end(rx, generation), end(tx, generation));
            let text = format!(
                "\u{2}{{\"Client\":{{\"index\":{index},\"rx\":{rx},\"tx\":{tx},\"work\":null}}}}"
            );
            text.into_bytes()
        },
    );
    let scene = vec(any::<u8>(), 0..300).prop_map(|bytes| [&[3], &bytes[..]].concat());
    let line = vec(prop_oneof![any::<u8>(), Just(b'\n')], 0..40)
        .prop_map(|bytes| [&[4], &bytes[..]].concat());
    prop_oneof![2 => text, 1 => policy, 1 => grant, 4 => scene, 1 => line]
}

/// An agent that introduces itself and receives ranks, followed by arbitrary bytes.
fn conversation() -> impl Strategy<Value = Vec<u8>> {
    // Of another kind than the head's words, of any rank, a greeting; then the head's start.
    let greeting = vec![1, 0, 1, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let rest = vec(any::<u8>(), 0..300);
    prop_oneof![
        5 => rest.clone().prop_map(move |rest| [&greeting[..], &rest].concat()),
        1 => rest,
    ]
}

proptest! {
    #[test]
    fn the_datapath_beside_strangers(bytes in datapath()) {
        drivers::datapath::run(&bytes);
    }

    #[test]
    fn the_engine_beside_a_lying_peer(bytes in vec(any::<u8>(), 0..600)) {
        drivers::engine::run(&bytes);
    }

    #[test]
    fn the_segment_beside_a_lying_peer(bytes in vec(any::<u8>(), 0..300)) {
        drivers::segment::run(&bytes);
    }

    #[test]
    fn datatypes_of_any_numbers(bytes in vec(any::<u8>(), 0..300)) {
        drivers::datatype::run(&bytes);
    }

    #[test]
    fn what_schedulers_say(which in 0_u8..8, text in allocation()) {
        drivers::allocation::run(&[&[which], &text[..]].concat());
    }

    #[test]
    fn any_command_line(bytes in words()) {
        drivers::options::run(&bytes);
    }

    #[test]
    fn what_launchers_say_to_each_other(which in 0_u8..5, bytes in said()) {
        drivers::launch::run(&[&[which], &bytes[..]].concat());
    }

    #[test]
    fn the_head_beside_a_lying_agent(bytes in conversation()) {
        drivers::launch::run(&[&[3], &bytes[..]].concat());
    }

    #[test]
    fn the_handshake_beside_a_stranger(bytes in vec(any::<u8>(), 0..700)) {
        drivers::secure::run(&bytes);
    }

    #[test]
    fn the_network_beside_a_lying_member(bytes in vec(any::<u8>(), 0..400)) {
        drivers::frames::run(&bytes);
    }
}
