//! Properties of names.

use super::*;

pub fn a_name_is_found_when_it_comes(stage: &dyn Stage) {
    play(stage, 4, |node| {
        if node.me() == 2 {
            let inbox = node.inbox(17).expect("free");
            node.name_link("counter", 17).expect("free");
            for _ in 0..3 {
                inbox.read(&mut [0; 1]).expect("comes");
            }
            assert_eq!(node.name_lookup("counter"), Ok((2, 17)));
        } else {
            let (server, port) = node.name_find("counter").expect("comes");
            assert_eq!((server, port), (2, 17));
            node.outbox(server, port)
                .expect("opens")
                .write(&[1])
                .expect("goes");
        }
    });
}

pub fn a_name_is_one_nodes(stage: &dyn Stage) {
    play(stage, 2, |node| {
        if node.me() == 0 {
            node.name_link("a", 1).expect("free");
        }
        barrier(node);
        assert_eq!(node.name_find("a"), Ok((0, 1)));
        if node.me() == 1 {
            assert_eq!(code(node.name_link("a", 1)), Code::Busy);
            assert_eq!(code(node.name_unlink("a")), Code::Busy);
        }
        barrier(node);
        if node.me() == 0 {
            node.name_unlink("a").expect("its own");
            assert_eq!(code(node.name_lookup("a")), Code::NoEntry);
        }
        barrier(node);
        if node.me() == 1 {
            assert_eq!(code(node.name_lookup("a")), Code::NoEntry);
            node.name_link("a", 5).expect("free again");
        }
        assert_eq!(node.name_find("a"), Ok((1, 5)));
    });
}
