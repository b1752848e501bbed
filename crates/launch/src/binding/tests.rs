use super::*;

/// So many packages of caches of cores of hardware threads; a package has one memory node.
fn machine(packages: usize, caches: usize, cores: usize, threads: usize) -> Topology {
    let whole = packages * caches * cores * threads;
    let level = |count: usize| {
        let each = whole / count;
        let object = |index: usize| Object {
            number: index as u32,
            threads: (index * each..(index + 1) * each).collect(),
        };
        (0..count).map(object).collect::<Vec<_>>()
    };
    Topology::new([
        (Level::Package, level(packages)),
        (Level::MemoryNode, level(packages)),
        (Level::L3Cache, level(packages * caches)),
        (Level::Core, level(packages * caches * cores)),
        (Level::HardwareThread, level(whole)),
    ])
}

fn place(request: &BindingRequest, topology: &Topology, ranks: usize) -> String {
    let (places, note) = request.place(topology, ranks).expect("it can be had");
    let mut text: Vec<String> = places
        .iter()
        .map(|place| match place {
            RankCores::Free => "free".into(),
            RankCores::Near(threads) => format!("near {}", ranges(threads)),
            RankCores::Bound(threads) => ranges(threads),
        })
        .collect();
    text.extend(note.map(|_| "note".into()));
    text.join(" | ")
}

fn bind(domain: Domain) -> BindingRequest {
    BindingRequest {
        bind: Some(BindTo::Domain(domain, 1)),
        ..BindingRequest::default()
    }
}

fn map(domain: Domain) -> BindingRequest {
    BindingRequest {
        map: Some(domain),
        ..BindingRequest::default()
    }
}

#[test]
fn ranks_begin_near_their_neighbours_and_are_spread() {
    let silent = BindingRequest::default();
    let two = machine(2, 1, 4, 1);
    for (ranks, expected) in [
        (1, "free"),
        (2, "near 0-3 | near 4-7"),
        (3, "near 0-3 | near 0-3 | near 4-7"),
        (4, "near 0-3 | near 0-3 | near 4-7 | near 4-7"),
    ] {
        assert_eq!(place(&silent, &two, ranks), expected);
    }
    assert!(
        place(&silent, &two, 9).starts_with("free | free"),
        "more than cores"
    );
    let chiplets = machine(1, 4, 2, 2);
    assert_eq!(
        place(&silent, &chiplets, 4),
        "near 0-3 | near 4-7 | near 8-11 | near 12-15"
    );
    assert_eq!(place(&silent, &machine(1, 1, 8, 1), 2), "free | free");
    // As many as cores: each begins on one.
    assert_eq!(
        place(&silent, &machine(1, 1, 2, 2), 2),
        "near 0-1 | near 2-3"
    );
    // A scheduler gives half of a machine.
    let half = two.within(&[2, 3, 4, 5]);
    assert_eq!(place(&silent, &half, 2), "near 2-3 | near 4-5");
}

/// Two jobs may have the whole of what is allowed each: nobody is kept anywhere unless it was asked for.
#[test]
fn ranks_are_bound_on_request_only() {
    let silent = BindingRequest {
        report: true,
        ..BindingRequest::default()
    };
    for topology in [
        machine(2, 2, 4, 2),
        machine(1, 1, 2, 1),
        machine(4, 1, 1, 1),
    ] {
        for ranks in 1..20 {
            let (places, _) = silent.place(&topology, ranks).expect("always");
            let bound = |place: &RankCores| matches!(place, RankCores::Bound(_));
            assert_eq!((places.len(), places.iter().any(bound)), (ranks, false));
        }
    }
}

#[test]
fn fewer_cores_than_were_asked_for_are_said() {
    let each = |map: Option<Domain>, cores: u32| BindingRequest {
        map,
        cores_each: Some(cores),
        ..BindingRequest::default()
    };
    let note = |request: BindingRequest, ranks| {
        let placed = request.place(&machine(2, 1, 4, 1), ranks);
        placed.expect("it can be had").1.unwrap_or_default()
    };
    let said = note(each(Some(Domain::Core), 3), 2);
    assert!(
        said.contains("3 cores for each rank were asked for, but ranks get 1: each core that"),
        "{said}"
    );
    let said = note(each(Some(Domain::L3Cache), 5), 1);
    assert!(said.contains("ranks get 4: each L3 cache that"), "{said}");
    let said = note(each(None, 9), 1);
    assert!(said.contains("ranks get 8: no more may be used"), "{said}");
    for (map, cores) in [
        (None, 4),
        (Some(Domain::Package), 4),
        (Some(Domain::Core), 1),
    ] {
        assert_eq!(note(each(map, cores), 2), "");
    }
}

#[test]
fn ranks_are_bound_to_what_was_said() {
    let chiplets = machine(2, 2, 2, 2);
    assert_eq!(place(&bind(Domain::Core), &chiplets, 2), "0-1 | 8-9");
    assert_eq!(
        place(&bind(Domain::HardwareThread), &chiplets, 4),
        "0 | 4 | 8 | 12"
    );
    assert_eq!(place(&bind(Domain::Package), &chiplets, 2), "0-7 | 8-15");
    assert_eq!(
        place(&bind(Domain::MemoryNode), &chiplets, 3),
        "0-7 | 8-15 | 0-7"
    );
    assert_eq!(place(&bind(Domain::L3Cache), &chiplets, 2), "0-3 | 8-11");
    let most = BindingRequest {
        bind: Some(BindTo::Domain(Domain::Core, u32::MAX)),
        ..BindingRequest::default()
    };
    assert_eq!(place(&most, &chiplets, 1), "0-15 | note");
    let two = machine(1, 1, 2, 1);
    assert_eq!(place(&bind(Domain::Core), &two, 3), "0 | 1 | 0 | note");
    let nothing = BindingRequest {
        bind: Some(BindTo::Nothing),
        ..map(Domain::Core)
    };
    assert_eq!(place(&nothing, &two, 2), "free | free");
    let lists = BindingRequest {
        bind: Some(BindTo::Lists(vec![vec![1], vec![0, 9]])),
        ..BindingRequest::default()
    };
    assert_eq!(place(&lists, &two, 3), "1 | 0 | 1");
}

#[test]
fn ranks_are_dealt_to_what_was_said() {
    let machine = machine(2, 2, 2, 1);
    assert_eq!(place(&map(Domain::Core), &machine, 3), "0 | 1 | 2");
    assert_eq!(
        place(&map(Domain::MemoryNode), &machine, 3),
        "0-3 | 4-7 | 0-3"
    );
    let both = BindingRequest {
        bind: Some(BindTo::Domain(Domain::Core, 1)),
        ..map(Domain::Package)
    };
    assert_eq!(place(&both, &machine, 4), "0 | 4 | 1 | 5");
    let filled = BindingRequest { fill: true, ..both };
    assert_eq!(place(&filled, &machine, 4), "0 | 1 | 4 | 5");
    let per_cache = BindingRequest {
        per_object: Some(2),
        bind: Some(BindTo::Domain(Domain::Core, 1)),
        ..map(Domain::L3Cache)
    };
    assert_eq!(place(&per_cache, &machine, 3), "0 | 1 | 2");
    let error = per_cache.place(&machine, 9).expect_err("no room");
    assert!(error.contains("room for 8"), "{error}");
    let wide = BindingRequest {
        cores_each: Some(2),
        ..BindingRequest::default()
    };
    assert_eq!(place(&wide, &machine, 3), "0-1 | 2-3 | 4-5");
    let wide = BindingRequest {
        cores_each: Some(2),
        ..map(Domain::Package)
    };
    assert_eq!(place(&wide, &machine, 3), "0-1 | 4-5 | 2-3");
    let wider = BindingRequest {
        bind: Some(BindTo::Domain(Domain::Package, 1)),
        ..map(Domain::Core)
    };
    assert_eq!(place(&wider, &machine, 2), "0-3 | 0-3");
}

#[test]
fn only_what_is_allowed_is_used() {
    let allowed = machine(2, 1, 4, 1).within(&[1, 2, 6]);
    assert_eq!(place(&bind(Domain::Package), &allowed, 2), "1-2 | 6");
    let set = BindingRequest {
        threads: vec![0, 1, 6, 7],
        ..BindingRequest::default()
    };
    assert_eq!(place(&set, &allowed, 2), "1,6 | 1,6");
    let one_each = BindingRequest {
        threads: set.threads.clone(),
        ..bind(Domain::Core)
    };
    assert_eq!(place(&one_each, &allowed, 2), "1 | 6");
    let none = BindingRequest {
        threads: vec![0, 7],
        ..BindingRequest::default()
    };
    let error = none.place(&allowed, 2).expect_err("none is allowed");
    assert!(error.contains("0,7") && error.contains("1-2,6"), "{error}");
}

#[test]
fn lists_of_cores_are_read_and_written() {
    for (text, numbers) in [
        ("0-3,8", &[0, 1, 2, 3, 8][..]),
        ("5", &[5]),
        ("4,2-3,3", &[2, 3, 4]),
    ] {
        assert_eq!(parse_ranges(text).as_deref(), Ok(numbers));
    }
    assert_eq!(ranges(&[0, 1, 2, 3, 8]), "0-3,8");
    for wrong in ["", "a", "3-1", "-1", "1-", "99999"] {
        assert!(parse_ranges(wrong).is_err(), "{wrong}");
    }
}
