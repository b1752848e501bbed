use std::collections::BTreeMap;

use super::*;

#[test]
fn lists_of_ranks() {
    for (given, said) in [
        (&[3][..], "rank 3"),
        (&[0, 1], "ranks 0, 1"),
        (&[0, 1, 2, 3, 4], "ranks 0 to 4"),
        (&[1, 3, 5, 6, 7], "ranks 1, 3 and 5 to 7"),
        (&[0, 2, 4, 6, 8, 10, 11], "ranks 0, 2, 4, 6 and 3 others"),
    ] {
        assert_eq!(ranks(given), said);
    }
}

#[test]
fn lists_of_places() {
    let places = |counts: &[(&str, usize)]| -> BTreeMap<String, usize> {
        counts
            .iter()
            .map(|(place, count)| ((*place).to_owned(), *count))
            .collect()
    };
    for (given, said) in [
        (&[("", 3)][..], ""),
        (&[("A at a.c:1", 1)], ": made by A at a.c:1"),
        (
            &[("A at a.c:1", 1), ("B at a.c:2", 2)],
            ": 2 made by B at a.c:2, 1 made by A at a.c:1",
        ),
        (
            &[("a", 9), ("b", 8), ("c", 7), ("d", 6), ("e", 1), ("f", 1)],
            ": 9 made by a, 8 made by b, 7 made by c, 6 made by d, 2 elsewhere",
        ),
    ] {
        assert_eq!(list(&places(given)), said);
    }
}

#[test]
fn the_first_of_those_that_agree_speaks() {
    let all = [0, 7, 7, 9, 7];
    let told: Vec<_> = (0..5).map(|rank| of_rank(&all, rank).told).collect();
    assert_eq!(told, [None, Some(2), None, Some(0), None]);
    let first: Vec<_> = (0..5).map(|rank| of_rank(&all, rank).first).collect();
    assert_eq!(first, [false, true, false, false, false]);
    assert_eq!((of_rank(&all, 0).ranks, of_rank(&all, 0).untold), (4, 0));
}

/// However different they are, few speak, and how many do not is known.
#[test]
fn few_of_many_speak() {
    let all: Vec<u64> = (1..=1000).collect();
    let speak = (0..1000).filter(|rank| of_rank(&all, *rank).told.is_some());
    assert_eq!(speak.count(), TOLD);
    assert_eq!(of_rank(&all, 0).untold as usize, 1000 - TOLD);
}

#[test]
fn ranks_of_senders_make_no_difference() {
    let mut reports = [Report::default(), Report::default()];
    assert_eq!(reports[0].likeness(), 0);
    for (place, report) in reports.iter_mut().enumerate() {
        report.add_of_rank("message", format!("from rank {place}"), "from".to_owned());
    }
    assert_eq!(reports[0].likeness(), reports[1].likeness());
    reports[1].add("file", "never closed".to_owned());
    assert_ne!(reports[0].likeness(), reports[1].likeness());
    assert_eq!(
        reports[1].text("left over"),
        "weft: warning: left over\n  message  from rank 1\n  file     never closed\n"
    );
}
