//! What a rank has left over, while others compare it already.

use std::sync::Arc;

use crate::common::on_threads;
use weft_mpi::left_over::{Owner, Report, compare};
use weft_mpi::{Source, TagPattern};

/// The first rank looks only when the word of the other one has come.
#[test]
fn what_others_compare_is_not_left_over() {
    on_threads(2, |process| {
        let world = process.world();
        let mut report = Report::default();
        if world.rank() == 0 {
            while process.unexpected_messages() == 0 {
                assert_eq!(world.iprobe(Source::Any, TagPattern::Any).unwrap(), None);
                std::thread::yield_now();
            }
            let owner = |_: u32| {
                Some(Owner {
                    name: "MPI_COMM_WORLD".to_owned(),
                    comm: Some(Arc::clone(&world)),
                })
            };
            report.add_messages(&process, &owner);
            report.add_collectives(&process, &owner);
        }
        // Both come to the end before either says what was wrong.
        let compared = compare(&world, report.likeness()).unwrap();
        assert!(report.is_empty(), "{}", report.text("left over"));
        assert_eq!(compared.ranks, 0);
    });
}
